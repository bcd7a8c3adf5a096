"""``mocketmq demo``: a day of delayed messages, and what became of them."""

import asyncio
import signal
import tempfile
from pathlib import Path

import click
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
from rich.progress import Progress as Bars

from emulator.cli.exits import Exit, Failure
from emulator.cli.screen import console, instant, table
from emulator.client import BrokerError, Client, UnreachableError
from emulator.clock import US_PER_S, steady_us
from emulator.demo.account import Account, Tally
from emulator.demo.process import own_broker
from emulator.demo.shop import Progress, Shop

_COLUMNS = (">level", ">delay", ">sent", ">delivered", ">early", ">latest", ">lost", ">repeated")


@click.command()
@click.option(
    "--messages", type=click.IntRange(min=1), default=100_000, show_default=True, help="How many to send."
)
@click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    help="Empty directory for the store, which is kept; without it, one that is removed.",
)
def demo(messages: int, data: Path | None) -> None:
    """Run a day of delayed messages through a broker of its own, and judge what its consumers received.

    The broker's clock is moved through the day, so a day takes less than a minute. The exit code is 1 when
    a message came early, twice or not at all.
    """
    if data is not None and data.exists() and any(data.iterdir()):
        raise click.BadParameter(f"{data} is not empty", param_hint="--data")
    began_us = steady_us()
    try:
        with tempfile.TemporaryDirectory(prefix="mocketmq-demo-") as temporary:
            account = asyncio.run(_play(data or Path(temporary), messages))
    except asyncio.CancelledError:
        raise click.exceptions.Exit(Exit.INTERRUPTED) from None
    except (BrokerError, UnreachableError) as error:
        raise Failure(f"the demo's broker failed: {error}", Exit.REFUSED) from error
    took_s = (steady_us() - began_us) / US_PER_S
    console().print(table(_COLUMNS, map(_row, (*account.levels, account.retries, account.total))))
    verdict = "every message came once and none early" if account.is_clean else "the broker is at fault"
    click.echo(f"a day of {messages:,} messages in {took_s:.1f} s: {verdict}")
    if account.unknown:
        click.echo(f"{account.unknown} messages were received that nobody had sent")
    if not account.is_clean:
        raise click.exceptions.Exit(Exit.REFUSED)


async def _play(data: Path, messages: int) -> Account:
    if (task := asyncio.current_task()) is not None:
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    text = TextColumn("{task.description}")
    async with own_broker(data) as url, Client(url) as broker:
        click.echo(f"a day at the broker on {url}, which is the demo's own")
        with Bars(text, BarColumn(), MofNCompleteColumn(), console=console()) as bars:
            sent, received = (bars.add_task(verb, total=messages) for verb in ("sent", "received"))

            def report(progress: Progress) -> None:
                bars.update(sent, completed=progress.sent)
                bars.update(
                    received,
                    completed=progress.received,
                    description=f"received at {instant(progress.now_ms)}",
                )

            shop = Shop(broker, messages, report)
            await shop.play()
    return shop.account


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
