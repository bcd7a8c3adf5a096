"""``mocketmq lab``, which runs the same load over several delay schemes, and compares them in a report."""

import asyncio
import shutil
import sys
import tempfile
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, get_args

import click

from mocketmq.calling.call import ClusterAccess
from mocketmq.cli.cluster_access import access_of
from mocketmq.cli.exit_codes import Exit, Failure
from mocketmq.cli.long_running import signals_restored, until_signal
from mocketmq.cli.options import examples
from mocketmq.cli.output import show
from mocketmq.cli.table import Table
from mocketmq.client.answer import BrokerError, UnreachableError
from mocketmq.duration import format_duration, parse_duration_us
from mocketmq.errors import EmulatorError, InvalidArgumentError
from mocketmq.lab.load import LEVELS, Load, SchemeName, level_of
from mocketmq.message.properties import MAX_TIMER_DELAY_MS
from mocketmq.settings import DelaySync, TimedSchemeName

if TYPE_CHECKING:
    from mocketmq.lab.cluster_run import ClusterRun
    from mocketmq.lab.measured import Results
    from mocketmq_report.lab.document import LabReport

_SCHEMES: Final[tuple[SchemeName, ...]] = (LEVELS, *get_args(TimedSchemeName))
_MOST_PENDING: Final = 10_000_000
_USUAL: Final = Load()


def _schemes(_context: click.Context, _option: click.Parameter, text: str) -> tuple[SchemeName, ...]:
    names = dict.fromkeys(each.strip() for each in text.split(","))
    for name in names:
        if name not in _SCHEMES:
            raise click.BadParameter(f"{name!r}; allowed: {', '.join(_SCHEMES)}, separated by commas")
    return tuple(each for each in _SCHEMES if each in names)


def _delays(_context: click.Context, _option: click.Parameter, text: str) -> tuple[int, ...]:
    try:
        delays = tuple(
            dict.fromkeys(parse_duration_us(each.strip(), "the delay") for each in text.split(","))
        )
    except InvalidArgumentError as error:
        raise click.BadParameter(str(error)) from error
    if min(delays) < 1_000 or max(delays) > MAX_TIMER_DELAY_MS * 1_000:
        raise click.BadParameter(f"{text!r}; allowed: delays from 1ms to 3d, separated by commas")
    return delays


def _pending(_context: click.Context, _option: click.Parameter, text: str) -> tuple[int, ...]:
    try:
        sizes = tuple(sorted({int(each) for each in text.split(",")}))
    except ValueError:
        sizes = ()
    if not sizes or not 1 <= sizes[0] <= sizes[-1] <= _MOST_PENDING:
        allowed = f"numbers of messages from 1 to {_MOST_PENDING:,}, such as 1000,10000,100000"
        raise click.BadParameter(f"{text!r}; allowed: {allowed}")
    return sizes


def _count(name: str, most: int, text: str) -> Callable[[Any], Any]:
    """Make an option for a number in the load."""
    return click.option(
        f"--{name}", type=click.IntRange(1, most), default=getattr(_USUAL, name), show_default=True, help=text
    )


@click.command(
    epilog=examples(
        "lab",
        "lab --schemes levels,wheel --rate 200 --delays 1s,5s,10s",
        "lab --schemes levels --name-server 10.0.0.5:9876 --open",
    )
)
@click.option(
    "--schemes",
    default=",".join(_SCHEMES),
    show_default=True,
    callback=_schemes,
    metavar="NAME,…",
    help="Delay schemes to measure.",
)
@click.option(
    "--name-server",
    "name_servers",
    metavar="HOST:PORT[,…]",
    help="Also measure the lateness of this RocketMQ, at the same rate.",
)
@click.option("--access-key", envvar="ROCKETMQ_ACCESS_KEY", help="The access key, for a cluster with ACL.")
@click.option("--secret-key", envvar="ROCKETMQ_SECRET_KEY", help="The secret of the access key.")
@_count("rate", 10_000, "Messages a second.")
@_count("seconds", 3_600, "How long to send at this rate.")
@click.option(
    "--delays",
    "delays_us",
    default=",".join(map(format_duration, _USUAL.delays_us)),
    show_default=True,
    callback=_delays,
    metavar="TIME,…",
    help="Delays of these messages; level queues and RocketMQ 4 support only the delay levels.",
)
@_count("size", 1 << 16, "Size of a body in bytes.")
@_count("herd", 1_000_000, "Messages that are due at one instant.")
@click.option(
    "--pending",
    default=",".join(map(str, _USUAL.pending)),
    show_default=True,
    callback=_pending,
    metavar="NUMBER,…",
    help="Numbers of pending messages at the start of a broker.",
)
@click.option(
    "--delay-sync",
    type=click.Choice(get_args(DelaySync)),
    default=_USUAL.delay_sync,
    show_default=True,
    help="When a scheme syncs its files, as in mocketmq serve.",
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default="mocketmq-lab",
    show_default=True,
    help="Directory for the report and the brokers' data, which determines the disk to measure.",
)
@click.option("--keep", is_flag=True, help="Keep the ledgers, in the directory data of --out.")
@click.option("--title", default="Delay schemes side by side", help="Title of the report.")
@click.option(
    "--quick", is_flag=True, help="Make the report without Spark and Java. The figures are the same."
)
@click.option("--json", "as_json", is_flag=True, help="Print lab.json instead of a summary.")
@click.option("--open", "is_opened", is_flag=True, help="Open the report in a browser.")
def lab(
    schemes: tuple[SchemeName, ...],
    name_servers: str | None,
    access_key: str | None,
    secret_key: str | None,
    out: Path,
    keep: bool,
    title: str,
    quick: bool,
    as_json: bool,
    is_opened: bool,
    **given: Any,
) -> None:
    """Run the same load over delay schemes, and write a report that compares them.

    Each scheme runs in brokers of its own, one scheme after the other, in real time. The lab measures
    lateness, saves, a herd that is due at one instant, and starts with many pending messages. The default
    load takes some minutes. Ctrl-C ends the lab, which leaves nothing behind.
    """
    load = Load(**given)
    if LEVELS in schemes or name_servers:
        for delay_us in load.delays_us:
            try:
                level_of(delay_us)
            except InvalidArgumentError as error:
                raise click.BadParameter(str(error), param_hint="--delays") from error
    access = access_of(access_key, secret_key)
    from mocketmq_report.command import failing  # noqa: PLC0415 - reports are an extra

    with failing():  # a missing extra must be reported now, not after minutes of measuring
        from mocketmq_report.lab import making  # noqa: F401, PLC0415
        from mocketmq_report.lab.making import write_lab  # noqa: PLC0415
    import mocketmq.lab.laboratory  # noqa: F401, PLC0415 - imports the whole broker

    with _place(out, keep) as place:
        cluster = _cluster(name_servers, access, load)
        results = _measure(schemes, load, place, cluster)
        made = _report(results, load, place, title, quick, clean=partial(_remove, place, keep))
        with failing():
            page = write_lab(made, str(out))
    if as_json:
        from mocketmq_report.lab.making import lab_json  # noqa: PLC0415

        sys.stdout.buffer.write(lab_json(made) + b"\n")
    else:
        show(*_summary(made), f"written: {page}")
    if is_opened:
        webbrowser.open(Path(page).resolve().as_uri())


@contextmanager
def _place(out: Path, keep: bool) -> Iterator[Path]:
    """Create the directory for the data of all brokers, and remove it at the end unless it is kept."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        if keep:
            place = out / "data"
            place.mkdir()
        else:
            place = Path(tempfile.mkdtemp(prefix="data-", dir=out))
    except FileExistsError:
        raise click.UsageError(f"{place} exists: remove it, or give another directory with --out") from None
    except OSError as error:
        raise Failure(f"{error.filename or out} cannot be written: {error.strerror}", Exit.USAGE) from error
    try:
        yield place
    finally:
        _remove(place, keep)


def _remove(place: Path, keep: bool) -> None:
    """Remove the data, and also ``--out`` if it is then empty."""
    if not keep:
        shutil.rmtree(place, ignore_errors=True)
    if not any(place.parent.iterdir()):
        place.parent.rmdir()


def _cluster(name_servers: str | None, access: ClusterAccess, load: Load) -> "ClusterRun | None":
    if not name_servers:
        return None
    from mocketmq.lab.cluster_run import ClusterRun  # noqa: PLC0415 - only with --name-server

    return ClusterRun(name_servers, load, access)


def _measure(
    schemes: tuple[SchemeName, ...], load: Load, place: Path, cluster: "ClusterRun | None"
) -> "Results":
    """Run the lab. After a signal, stop the lab's brokers before the command ends."""
    from mocketmq.calling.call import NoAnswerError  # noqa: PLC0415
    from mocketmq.lab.laboratory import run_lab  # noqa: PLC0415 - imports the whole broker
    from mocketmq_report.command import progress_shown  # noqa: PLC0415

    try:
        with progress_shown() as tell, signals_restored():
            code, results = asyncio.run(until_signal(run_lab(schemes, load, place, tell, cluster)))
    except NoAnswerError as error:
        raise Failure(str(error), Exit.NOT_READY) from error
    except (EmulatorError, BrokerError, UnreachableError) as error:
        raise Failure(str(error), Exit.REFUSED) from error
    if results is None:
        raise click.exceptions.Exit(code)
    return results


def _report(
    results: "Results", load: Load, place: Path, title: str, quick: bool, clean: Callable[[], object]
) -> "LabReport":
    """Make the report from the ledgers. A signal ends the process after calling ``clean``."""
    from mocketmq_report.command import failing, progress_shown, spark_unless  # noqa: PLC0415
    from mocketmq_report.interruption import ended_by_signals  # noqa: PLC0415
    from mocketmq_report.job import ReportRunner  # noqa: PLC0415
    from mocketmq_report.lab.making import make_lab_report  # noqa: PLC0415

    def make() -> "LabReport":
        with progress_shown() as tell, spark_unless(quick, None, False) as spark:
            return make_lab_report(ReportRunner(spark), load, results, place, title, tell)

    with failing():
        return ended_by_signals(make, clean)


def _summary(made: "LabReport") -> Iterator[Table | str]:
    from mocketmq_report import figures  # noqa: PLC0415
    from mocketmq_report.lab.html import size  # noqa: PLC0415

    columns = ("subject", ">p50", ">p99", ">max", ">saves", ">herd", ">pending", ">start", ">memory", ">disk")
    rows = []
    for each in made.subjects:
        late = each.lateness[0]
        row = [each.name, *map(figures.duration, (late.p50_us, late.p99_us, late.max_us))]
        row.append(figures.rate(each.saves_per_second))
        row.append(figures.rate(each.herd.per_second if each.herd else None))
        for last in each.growth[-1:]:
            row += [figures.count(last.pending), figures.duration(last.start_us)]
            row += [size(last.memory_bytes), size(last.disk_bytes)]
        rows.append(row + [figures.NONE] * (len(columns) - len(row)))
    yield Table(columns, rows)
    for left in made.left_out:
        yield f"{left.name} is left out: {left.reason}"
    for each in made.subjects:
        yield from (f"{each.name}: {note}" for note in each.notes)
