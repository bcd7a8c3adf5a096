"""``mocketmq demo``, which plays a day of delayed messages, and checks what consumers receive."""

import asyncio
import shutil
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import click
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
from rich.progress import Progress as Bars

from mocketmq.cli.exit_codes import Exit, Failure
from mocketmq.cli.long_running import at_stop_signals
from mocketmq.cli.options import examples
from mocketmq.cli.output import instant, show
from mocketmq.cli.table import Table
from mocketmq.client.answer import BrokerError, UnreachableError
from mocketmq.client.asynchronous import Client
from mocketmq.clock import US_PER_S, steady_us
from mocketmq.demo import DayProgress, Shop, Tallies, Tally
from mocketmq.lab.own_broker import own_broker

_COLUMNS = (">level", ">delay", ">sent", ">delivered", ">early", ">latest", ">lost", ">repeated")
_FAULTLESS = ("early == 0", "lost == 0", "repeats == 0", "overdue == 0")


@click.command(epilog=examples("demo", "demo --messages 1000 --report mocketmq-report"))
@click.option(
    "--messages", type=click.IntRange(min=1), default=100_000, show_default=True, help="Messages to send."
)
@click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    help="Empty directory for the store, which is kept; by default a temporary one.",
)
@click.option(
    "--report",
    type=click.Path(file_okay=False),
    help="Directory for a lateness report of the day.",
)
def demo(messages: int, data: Path | None, report: str | None) -> None:
    """Play a day of delayed messages through a new broker, and check what its consumers receive.

    The broker's clock is moved through the day, which takes less than a minute. The exit code is 1 if any
    message came early, twice or not at all.
    """
    if data is not None and data.exists() and any(data.iterdir()):
        raise click.BadParameter(f"{data} is not empty", param_hint="--data")
    with tempfile.TemporaryDirectory(prefix="mocketmq-demo-") as temporary:
        store = data or Path(temporary)
        is_clean = _day(store, messages)
        if report is not None:
            is_clean &= _report(store, report, clean=partial(shutil.rmtree, temporary, ignore_errors=True))
    if not is_clean:
        raise click.exceptions.Exit(Exit.REFUSED)


def _day(data: Path, messages: int) -> bool:
    """Play the day and print the tallies. Returns whether every message came exactly once and none early."""
    began_us = steady_us()
    try:
        expectations = asyncio.run(_play(data, messages))
    except asyncio.CancelledError:
        raise click.exceptions.Exit(Exit.INTERRUPTED) from None
    except (BrokerError, UnreachableError) as error:
        raise Failure(f"the demo's broker failed: {error}", Exit.REFUSED) from error
    took_s = (steady_us() - began_us) / US_PER_S
    rows = map(_row, (*expectations.levels, expectations.retries, expectations.total))
    show(Table(_COLUMNS, rows, least=("delay", "sent")))
    verdict = "every message came once, and none early" if expectations.is_clean else "the broker is at fault"
    click.echo(f"a day of {messages:,} messages in {took_s:.1f} s: {verdict}")
    if expectations.unknown:
        click.echo(f"{expectations.unknown} received messages were never sent")
    return expectations.is_clean


def _report(data: Path, out: str, clean: Callable[[], None]) -> bool:
    """Write the lateness report of the broker's ledger. Returns whether it passes.

    ``clean`` is called before a signal ends the process.
    """
    from mocketmq_report.command import failing, make_report  # noqa: PLC0415 - reports are an extra

    with failing():
        from mocketmq_report.job import Job  # noqa: PLC0415
        from mocketmq_report.judge.thresholds import parse  # noqa: PLC0415

        job = Job(data=(str(data),), out=out, title="a demo day", thresholds=[*map(parse, _FAULTLESS)])
        made = make_report(job, quick=True, clean=clean)
    made.show()
    return made.report.passed


async def _play(data: Path, messages: int) -> Tallies:
    if (task := asyncio.current_task()) is not None:
        at_stop_signals(lambda _: task.cancel())
    text = TextColumn("{task.description}")
    async with own_broker(data, "--clock", "manual") as own, Client(own.url) as broker:
        click.echo(f"the demo's broker is at {own.url}")
        with Bars(text, BarColumn(), MofNCompleteColumn()) as bars:
            sent, received = (bars.add_task(verb, total=messages) for verb in ("sent", "received"))

            def report(progress: DayProgress) -> None:
                bars.update(sent, completed=progress.sent)
                bars.update(
                    received,
                    completed=progress.received,
                    description=f"received at {instant(progress.now_ms)}",
                )

            shop = Shop(broker, messages, report)
            await shop.play()
    return shop.expectations


def _row(tally: Tally) -> tuple[object, ...]:
    return (
        tally.name,
        tally.delay,
        f"{tally.sent:,}",
        f"{tally.delivered:,}",
        tally.early,
        f"{tally.latest_ms} ms",
        tally.lost,
        tally.repeated,
    )
