"""``mocketmq probe``: measure how late a real cluster delivers."""

import asyncio
import signal
from functools import partial
from pathlib import Path
from typing import Any

import click

from mocketmq.cli.examples import examples
from mocketmq.cli.exit_codes import Exit, Failure
from mocketmq.cli.output import Output
from mocketmq.cli.progress_line import ProgressLine
from mocketmq.cli.table import Table
from mocketmq.clock import US_PER_MS, US_PER_S
from mocketmq.duration import parse_duration_us
from mocketmq.errors import InvalidArgumentError
from mocketmq.message.names import check_group_name, check_topic_name
from mocketmq.probe.connection import Account, NoAnswerError, ProbeError
from mocketmq.probe.probe_ledger import ProbeLedger
from mocketmq.probe.probing import MAX_RATE, Plan, Probing

_COLUMNS = ("level", "delay", ">sent", ">received", ">p50", ">p90", ">p99", ">max")
_SIGNALS = {signal.SIGINT: Exit.INTERRUPTED.value, signal.SIGTERM: 143}


def _levels(_context: click.Context, _option: click.Parameter, text: str) -> tuple[int, ...]:
    try:
        levels = tuple(dict.fromkeys(int(each) for each in text.split(",")))
    except ValueError:
        levels = ()
    if not levels or min(levels) < 1:
        raise click.BadParameter(f"{text!r}; allowed: numbers of delay levels from 1 on, such as 1,2,5")
    return levels


@click.command(
    epilog=examples(
        "probe --name-server 10.0.0.5:9876",
        "probe --name-server 10.0.0.5:9876 --levels 1,5 --out tuesday.csv",
    )
)
@click.option(
    "--name-server", "name_servers", required=True, metavar="HOST:PORT[,…]", help="The cluster's name server."
)
@click.option(
    "--levels", default="1,2,3", show_default=True, callback=_levels, help="Delay levels to send at."
)
@click.option(
    "--count",
    "each",
    type=click.IntRange(1, 10_000),
    default=100,
    show_default=True,
    help="Messages of each level.",
)
@click.option(
    "--rate", type=click.IntRange(1, MAX_RATE), default=10, show_default=True, help="Messages a second."
)
@click.option(
    "--size", type=click.IntRange(1, 1 << 16), default=100, show_default=True, help="Bytes of a body."
)
@click.option("--topic", default="mocketmq-probe", show_default=True, help="Made if it does not exist.")
@click.option("--group", default="mocketmq-probe", show_default=True, help="Made if it does not exist.")
@click.option(
    "--patience",
    default="60s",
    show_default=True,
    metavar="TIME",
    help="How long to wait for what is overdue.",
)
@click.option("--access-key", envvar="ROCKETMQ_ACCESS_KEY", help="For a cluster with ACL.")
@click.option("--secret-key", envvar="ROCKETMQ_SECRET_KEY", help="The secret of the access key.")
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    default="probe.csv",
    show_default=True,
    help="The ledger to write, which must not exist.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
def probe(out: Path, as_json: bool, **given: Any) -> None:
    """Send delayed messages through a real cluster, and write how late they came as a ledger.

    `mocketmq report` reads the ledger, and `mocketmq serve --lateness-from` plays it back. Ctrl-C ends the
    probe and writes what has come. Topic and group stay on the cluster; no offset is committed.
    """
    plan = _plan(**given)
    if out.suffix != ".csv":
        raise click.UsageError(f"--out is {str(out)!r}; allowed: a name that ends in .csv")
    try:
        out.touch(exist_ok=False)  # before anything is sent
    except FileExistsError:
        raise click.UsageError(f"{out} exists: give another name with --out") from None
    except OSError as error:
        raise Failure(f"{out} cannot be written: {error.strerror}", Exit.USAGE) from error
    kept = {number: signal.getsignal(number) for number in _SIGNALS}  # which the loop would forget
    try:
        with ProgressLine() as progress:
            probing = Probing(plan, progress)
            code = asyncio.run(_run(probing))
        ledger = ProbeLedger(probing)
        if ledger.rows:
            ledger.write(out)
    except ProbeError as error:
        not_ready = isinstance(error, NoAnswerError)
        raise Failure(str(error), Exit.NOT_READY if not_ready else Exit.REFUSED) from error
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)
        if not out.stat().st_size:
            out.unlink()
    if ledger.rows:
        summary = ledger.summary()
        Output(as_json).show({"ledger": str(out), **summary}, *_shown(summary, out))
    if code:
        raise click.exceptions.Exit(code)
    if not any(row.delivered_us for row in ledger.rows):
        raise Failure("no delayed message came", Exit.NOTHING)


def _plan(
    access_key: str | None, secret_key: str | None, patience: str, topic: str, group: str, **given: Any
) -> Plan:
    if (access_key is None) is not (secret_key is None):
        raise click.UsageError("--access-key and --secret-key are needed together")
    account = Account(access_key, secret_key) if access_key and secret_key else None
    try:
        check_topic_name(topic)
        check_group_name(group)
        patience_us = parse_duration_us(patience, "--patience")
    except InvalidArgumentError as error:
        raise click.UsageError(str(error)) from error
    return Plan(topic=topic, group=group, patience_us=patience_us, account=account, **given)


async def _run(probing: Probing) -> int:
    """Probe until the end or a signal; the exit code."""
    stop, codes = asyncio.Event(), [0]

    def end(code: int) -> None:
        codes.append(code)
        stop.set()

    for number, code in _SIGNALS.items():
        asyncio.get_running_loop().add_signal_handler(number, partial(end, code))
    await probing.run(stop)
    return codes[-1]


def _shown(summary: dict[str, Any], out: Path) -> list[Table | str]:
    levels = [
        (
            *map(each.get, ("level", "delay", "sent", "received")),
            *(_ms(each[name]) for name in ("p50_us", "p90_us", "p99_us", "max_us")),
        )
        for each in summary["levels"]
    ]
    parts: list[Table | str] = [
        Table(_COLUMNS, levels),
        f"lateness is right to ±{_ms(summary['lateness_error_us'])}",
    ]
    for broker in summary["brokers"]:
        what = f"broker {broker['name']} at {broker['address']}, version {broker['version']}"
        if broker["clock_ahead_us"] is None:
            parts.append(f"{what}: its clock is unknown")
            continue
        ahead_us = broker["clock_ahead_us"]
        side = "ahead of" if ahead_us >= 0 else "behind"
        drifts = ", and drifts" if broker["clock_drifts"] else ""
        parts.append(
            f"{what}: its clock is {_ms(abs(ahead_us))} {side} ours, ±{_ms(broker['clock_error_us'])}{drifts}"
        )
    parts += [f"{count} sends failed: {reason}" for reason, count in summary["failed"].items()]
    parts += summary["notes"]
    parts.append(f"left on the cluster: topic {summary['topic']}, group {summary['group']}")
    parts.append(f"written: {out}; see it with: mocketmq report {out}")
    return parts


def _ms(us: int | None) -> str:
    if us is None:
        return "–"
    return f"{us / US_PER_S:.1f}s" if us >= 10 * US_PER_S else f"{us / US_PER_MS:.1f}ms"
