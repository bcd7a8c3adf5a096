"""``mocketmq report``: the command line of lateness reports, for a laptop and for ``spark-submit``.

Exit codes: 0 passed, 1 a threshold failed, 2 wrong usage, 3 the job failed. Spark is imported when the job
runs, so that an invalid command line is refused at once.
"""

import os
import sys
import traceback
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars

from mocketmq.clock import US_PER_MS, US_PER_S, steady_us
from mocketmq.delay_limits import DELAY_LIMITS
from mocketmq.duration import parse_duration_us
from mocketmq.errors import EmulatorError, InvalidArgumentError
from mocketmq.instant import parse_instant_ms
from mocketmq_report.class_archive import ClassArchive
from mocketmq_report.interruption import ended_by_signals
from mocketmq_report.java import JavaError
from mocketmq_report.judge import compare, thresholds
from mocketmq_report.judge.condition import InvalidThresholdError
from mocketmq_report.on_time import DEFAULT_ON_TIME

if TYPE_CHECKING:
    from mocketmq_report.document import Report
    from mocketmq_report.job import Job, StartingSpark
    from mocketmq_report.progress import ProgressCallback


class ReportExit(IntEnum):
    """The exit codes of ``mocketmq report``."""

    PASSED = 0
    FAILED = 1
    USAGE = 2
    NO_REPORT = 3
    INTERRUPTED = 130


_EPILOG: Final = """\b
Examples:
  mocketmq report mocketmq-data --open
  mocketmq report mocketmq-data --threshold 'level=3 p99 <= 50ms' --json
  mocketmq report today --compare yesterday/report.json --fail-if 'p99 > 1.5x'
  mocketmq report mocketmq-data --follow

\b
Exit codes:
  0    passed
  1    a threshold or a fail-if rule failed; the report is written
  2    wrong usage: an invalid option, threshold or rule
  3    the job failed: no Java, no readable data, too many unusable rows
  130  interrupted by Ctrl-C; 143 by SIGTERM
"""


_QUICK_ROWS: Final = 100_000
"""Number of rows for which a quick report takes about a second."""
_QUICKER: Final = (
    "made in {:.1f} s, most of which Spark took to start: --quick gives the same figures in about a second,"
    " without Spark and Java"
)
_QUICK_INSTEAD: Final = "Or give --quick: it makes the same report without Spark and Java"


class NoReport(click.ClickException):
    """Ends the command without a report; the message says why."""

    exit_code = ReportExit.NO_REPORT


class _Parsed(click.ParamType):  # type: ignore[type-arg]  # older versions of click have no type argument
    """An option type whose parser is a function that raises EmulatorError."""

    def __init__(self, name: str, parse: Any) -> None:
        self.name = name
        self._parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value  # a default
        try:
            return self._parse(value)
        except EmulatorError as error:
            self.fail(str(error), param, ctx)


def _share(text: str) -> float:
    number = text.removesuffix("%")
    try:
        share = float(number) / 100
    except ValueError:
        share = -1.0
    if number == text or not 0 <= share <= 1:
        raise InvalidArgumentError("the share", text, "0% to 100%")
    return share


_DURATION: Final = _Parsed("duration", lambda text: parse_duration_us(text, "the duration"))
_INSTANT: Final = _Parsed("instant", lambda text: parse_instant_ms(text, "the instant"))


@click.command(epilog=_EPILOG)
@click.argument("data", nargs=-1, required=True)
@click.option(
    "--out",
    default="mocketmq-report",
    show_default=True,
    metavar="DIR|URL",
    help="Directory or URL for the report.",
)
@click.option("--title", help="Title of the report; by default the names of DATA.")
@click.option(
    "--threshold",
    "wanted",
    multiple=True,
    type=_Parsed("threshold", thresholds.parse),
    help="A limit such as 'level=3 p99 <= 50ms' or 'early == 0'; may be given more than once.",
)
@click.option(
    "--thresholds",
    "files",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A file with a threshold on each line; # begins a comment.",
)
@click.option(
    "--compare",
    "baselines",
    multiple=True,
    metavar="DATA|REPORT.JSON",
    help="Compare with other data or an earlier report. The first one is the baseline.",
)
@click.option(
    "--fail-if",
    "rules",
    multiple=True,
    type=_Parsed("rule", compare.parse_rule),
    help="Fail if this holds against the baseline, such as 'p99 > 1.5x' or 'level=* max > +50ms'.",
)
@click.option(
    "--on-time",
    type=_DURATION,
    default=DEFAULT_ON_TIME,
    show_default=True,
    help="Count a delivery as on time if it is neither early nor later than this.",
)
@click.option(
    "--percentiles",
    "method",
    type=click.Choice(["auto", "exact", "bins"]),
    default="auto",
    show_default=True,
    help="Compute percentiles from every value, or from bins within 0.1 %; auto uses bins for more than a"
    " million rows.",
)
@click.option(
    "--as-of",
    "as_of_ms",
    type=_INSTANT,
    help="Undelivered messages due by this instant are overdue; by default the latest instant in the data, or"
    " now for a running broker. Epoch milliseconds, or as 2030-01-31T08:00:00Z.",
)
@click.option(
    "--max-dropped",
    type=_Parsed("share", _share),
    default="1%",
    show_default=True,
    help="Fail if a greater share of the rows is unusable.",
)
@click.option("--rollup", metavar="DIR|URL", help="Also write a rollup, which later reports can read.")
@click.option(
    "--quick",
    is_flag=True,
    help="Make the report in this process, without Spark and Java. The figures are the same.",
)
@click.option(
    "--delay-limits",
    type=click.Choice(list(DELAY_LIMITS)),
    metavar="NAME",
    help="Show which delays another system would have refused, rounded or held up (docs/delay-limits.md):"
    f" {', '.join(DELAY_LIMITS)}.",
)
@click.option("--follow", is_flag=True, help="Show a rolling table of a running broker instead of a report.")
@click.option(
    "--window", type=_DURATION, default="1m", show_default=True, help="Length of the window of --follow."
)
@click.option("--master", metavar="URL", help="Spark's master; by default that of spark-submit, or local[*].")
@click.option(
    "--class-archive",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Keep an archive of Java's classes (116 MB) in this directory, so that later reports start sooner.",
)
@click.option("--chatter", is_flag=True, help="Show Spark's log.")
@click.option("--json", "as_json", is_flag=True, help="Print report.json instead of a summary.")
@click.option("--open", "is_opened", is_flag=True, help="Open the report in a browser.")
def report(
    data: tuple[str, ...],
    files: tuple[Path, ...],
    wanted: tuple[thresholds.Threshold, ...],
    quick: bool,
    follow: bool,
    window: int,
    master: str | None,
    class_archive: Path | None,
    chatter: bool,
    as_json: bool,
    is_opened: bool,
    **options: Any,
) -> None:
    """Report how late every delayed delivery was and why, and check thresholds.

    DATA is the data directory of a running or stopped broker, an export, a rollup, a folder of these, or a
    CSV, JSON lines or Parquet file with the columns of docs/ledger-format.md. Spark also reads URLs such as
    s3a://bucket/ledgers.
    """
    try:
        judged_by = [*wanted, *(each for file in files for each in thresholds.parse_file(file))]
    except InvalidThresholdError as error:
        raise click.UsageError(str(error)) from error
    if options["rules"] and not options["baselines"]:
        raise click.UsageError("--fail-if needs a baseline: add --compare")
    if quick and (follow or master is not None):
        raise click.UsageError("--quick does not use Spark; it cannot be combined with --follow or --master")
    if class_archive is not None and (quick or follow):
        raise click.UsageError(
            "--class-archive only speeds up Spark reports; it cannot be combined with --quick or --follow"
        )
    if follow and options["delay_limits"]:
        raise click.UsageError("--delay-limits needs a whole ledger; it cannot be combined with --follow")
    with failing():
        if follow:
            ended_by_signals(lambda: _follow(data, window, master, chatter))
            return
        job = _job(data, judged_by, **options)
        made = make_report(job, master=master, chatter=chatter, quick=quick, class_archive=class_archive)
    made.show(as_json)
    if is_opened:
        webbrowser.open(made.page if "://" in made.page else Path(made.page).resolve().as_uri())
    if not made.report.passed:
        raise click.exceptions.Exit(ReportExit.FAILED)


def _job(data: tuple[str, ...], judged_by: list[thresholds.Threshold], **options: Any) -> "Job":
    from mocketmq_report.job import Job  # noqa: PLC0415 - after the command line was checked

    as_of_ms, method, delay_limits = (options.pop(name) for name in ("as_of_ms", "method", "delay_limits"))
    return Job(
        data=data,
        thresholds=judged_by,
        on_time_us=options.pop("on_time"),
        exact=None if method == "auto" else method == "exact",
        as_of_us=None if as_of_ms is None else as_of_ms * US_PER_MS,
        delay_limits=DELAY_LIMITS.get(delay_limits),
        **options,
    )


class WrittenReport(NamedTuple):
    """A report, and the path or URL of its page."""

    report: "Report"
    page: str

    def show(self, as_json: bool = False) -> None:
        """Print a summary, or the whole report as JSON."""
        if as_json:
            from mocketmq_report.report.output import json  # noqa: PLC0415

            sys.stdout.buffer.write(json(self.report) + b"\n")
            return
        from mocketmq_report.report.summary_table import summary  # noqa: PLC0415

        console = Console(highlight=False)
        console.print(summary(self.report))
        console.print(f"written: {self.page}", soft_wrap=True)


def make_report(
    job: "Job",
    *,
    master: str | None = None,
    chatter: bool = False,
    quick: bool = False,
    class_archive: Path | None = None,
    clean: Callable[[], object] = lambda: None,
) -> WrittenReport:
    """Run the job with a progress bar, and write the report; ``quick`` uses no Spark.

    A signal ends the process after ``clean``.
    """
    archive = None if class_archive is None else ClassArchive(class_archive)

    def end() -> None:
        if archive is not None:
            archive.abandon()
        clean()

    return ended_by_signals(lambda: _make_report(job, master, chatter, quick, archive), end)


def _make_report(
    job: "Job", master: str | None, chatter: bool, quick: bool, archive: ClassArchive | None
) -> WrittenReport:
    from mocketmq_report.job import ReportRunner, run  # noqa: PLC0415
    from mocketmq_report.judge.drawn_limits import drawn_limits  # noqa: PLC0415
    from mocketmq_report.ledger.places import is_here  # noqa: PLC0415
    from mocketmq_report.report.output import check_out, write  # noqa: PLC0415

    check_out(job.out)
    began_us = steady_us()
    is_carrier = all(map(is_here, (*job.data, *job.baselines)))
    with progress_shown() as tell, spark_unless(quick, master, chatter, is_carrier, archive) as spark:
        try:
            report = run(ReportRunner(spark), job, tell)
        except JavaError as error:
            raise NoReport(f"{error}. {_QUICK_INSTEAD}" if is_carrier else str(error)) from error
        tell("writing", 0, None)
        limits = list(drawn_limits(job.thresholds, report))
        made = WrittenReport(report, write(report, job.out, limits, spark=spark))
        if archive is not None and archive.is_made:
            tell("archiving Java's classes", 0, None)
    if archive is not None and archive.problem is not None:
        click.echo(archive.problem, err=True)
    is_local = is_carrier and master is None and "PYSPARK_GATEWAY_PORT" not in os.environ
    if spark is not None and is_local and report.quality.read <= _QUICK_ROWS:
        took_s = (steady_us() - began_us) / US_PER_S
        click.echo(_QUICKER.format(took_s), err=True)
    return made


def spark_unless(
    quick: bool,
    master: str | None,
    chatter: bool,
    is_carrier: bool = True,
    archive: ClassArchive | None = None,
) -> "AbstractContextManager[StartingSpark | None]":
    """Start Spark in the background; None for a quick report.

    With ``is_carrier``, Spark itself reads no data, because there are no URLs.
    """
    if quick:
        return nullcontext()
    from mocketmq_report.session import starting  # noqa: PLC0415

    return starting(master=master, chatter=chatter, is_carrier=is_carrier, archive=archive)


def _follow(data: tuple[str, ...], window_us: int, master: str | None, chatter: bool) -> None:
    if len(data) != 1:
        raise click.UsageError("--follow shows one broker: give only its data directory")
    with progress_shown() as tell:
        tell("starting", 0, None)
        from mocketmq_report.live.follow import follow  # noqa: PLC0415 - these imports take seconds
        from mocketmq_report.session import starting  # noqa: PLC0415
    with starting(master=master, chatter=chatter) as spark:
        follow(spark, Path(data[0]), window_s=window_us / US_PER_S, console=Console(highlight=False))


@contextmanager
def failing() -> Iterator[None]:
    """Turn a failure of the job into a sentence and exit code 3."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise NoReport(
            f"lateness reports need more than the broker, and {error.name} is not installed:"
            " install mocketmq with its extra 'report'"
        ) from error
    except EmulatorError as error:
        raise NoReport(str(error)) from error
    except (click.ClickException, click.exceptions.Exit):
        raise
    except KeyboardInterrupt:
        raise click.exceptions.Exit(ReportExit.INTERRUPTED) from None
    except Exception as error:
        traceback.print_exc()
        raise NoReport(
            f"the job failed: {type(error).__name__}, see above; --chatter shows Spark's log"
        ) from error


@contextmanager
def progress_shown() -> Iterator["ProgressCallback"]:
    """Show a progress bar on stderr, or a line for each step if stderr is not a terminal."""
    if not sys.stderr.isatty():
        last = ""

        def say(what: str, _done: int, _total: int | None) -> None:
            nonlocal last
            if what != last:
                click.echo(what, err=True)
            last = what

        yield say
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Bars(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task("", total=None)

        def tell(what: str, done: int, total: int | None) -> None:
            bars.update(task, description=what, completed=done, total=total)

        yield tell
