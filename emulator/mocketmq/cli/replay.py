"""``mocketmq replay``, which sends a recording to a broker on its movable clock."""

import asyncio
import math
from pathlib import Path
from typing import Any, Final

import click

from mocketmq.cli.as_typed import as_typed
from mocketmq.cli.connection import broker_options
from mocketmq.cli.exit_codes import Exit, Failure
from mocketmq.cli.options import examples
from mocketmq.cli.output import Output
from mocketmq.cli.progress_line import ProgressLine
from mocketmq.cli.signals import EXIT_CODES, at_stop_signals
from mocketmq.cli.text import harmless
from mocketmq.client.answer import BrokerError, UnreachableError
from mocketmq.client.asynchronous import Client
from mocketmq.clock import US_PER_MS
from mocketmq.duration import format_duration
from mocketmq.errors import InvalidArgumentError
from mocketmq.message.names import check_topic_name
from mocketmq.recording.recording import RecordingError, RecordingReader
from mocketmq.recording.replaying import Replaying

_SHOWN: Final = 10
"""Maximum number of refused messages that are named."""


def _topics(_context: click.Context, _option: click.Parameter, pairs: tuple[str, ...]) -> dict[str, str]:
    topics = {}
    for pair in pairs:
        before, equals, after = pair.partition("=")
        try:
            if not before or not equals:
                raise click.BadParameter(f"{pair!r}; allowed: TOPIC=OTHER")
            check_topic_name(after)
        except InvalidArgumentError as error:
            raise click.BadParameter(str(error)) from None
        topics[before] = after
    return topics


def _positive(_context: click.Context, _option: click.Parameter, speed: float | None) -> float | None:
    if speed is not None and not (0 < speed < math.inf):
        raise click.BadParameter(f"{speed}; allowed: a number above 0, such as 60")
    return speed


@click.command(
    epilog=examples(
        "replay orders.jsonl",
        "replay orders.jsonl --speed 60",
        "replay orders.jsonl --topic-map orders=orders-test --json",
    )
)
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--speed",
    type=float,
    callback=_positive,
    help="Recorded seconds in a real second.  [default: the rate of the broker's clock]",
)
@click.option(
    "--as-fast-as-possible", is_flag=True, help="Do not wait. The default if the broker's clock is manual."
)
@click.option(
    "--topic-map",
    "topics",
    multiple=True,
    metavar="TOPIC=OTHER",
    callback=_topics,
    help="Send the messages of TOPIC to OTHER; may be repeated.",
)
@broker_options
def replay(
    file: Path,
    speed: float | None,
    as_fast_as_possible: bool,
    topics: dict[str, str],
    url: str,
    token: str | None,
    as_json: bool,
) -> None:
    """Send the messages of a recording again, with their spacing on the broker's clock.

    The replay moves the clock, or waits for it; on a manual clock the spacing is exact. Queues, order, keys
    and delays are kept. At the end, a clock that the replay moves is moved until all messages are delivered.
    """
    if speed is not None and as_fast_as_possible:
        raise click.UsageError("--speed and --as-fast-as-possible exclude each other")
    try:
        recording = RecordingReader(file)
    except RecordingError as error:
        raise Failure(str(error), Exit.USAGE) from error
    try:
        with ProgressLine() as progress:
            code, done = asyncio.run(
                _run(url, token, recording, topics, speed, progress, hurries=as_fast_as_possible)
            )
    except InvalidArgumentError as error:
        raise Failure(as_typed(error), Exit.USAGE) from error
    except RecordingError as error:
        raise Failure(str(error), Exit.USAGE) from error
    except BrokerError as error:
        raise Failure(as_typed(error), Exit.REFUSED) from error
    except UnreachableError as error:
        raise Failure(str(error), Exit.NOT_READY) from error
    finally:
        recording.close()
    span = format_duration((done.now_ms - done.began_ms) * US_PER_MS)
    summary = {
        name: getattr(done, name) for name in ("sent", "delayed", "refused", "began_ms", "now_ms", "pending")
    }
    Output(as_json).show(
        summary,
        f"sent {done.sent} messages, of which {done.delayed} were delayed, in {span} of the broker's clock",
        f"{done.pending} messages wait for their due time",
        "see how late the others were: mocketmq report --quick",
    )
    if code:
        raise click.exceptions.Exit(code)
    if done.refused:
        raise Failure(f"the broker refused {done.refused} messages", Exit.REFUSED)


async def _run(
    url: str,
    token: str | None,
    recording: RecordingReader,
    topics: dict[str, str],
    speed: float | None,
    progress: Any,
    *,
    hurries: bool,
) -> tuple[int, Replaying]:
    """Replay to the end, or until a signal arrives. Returns the exit code and the replay."""
    codes = [0]

    def refuse(sentence: str) -> None:
        if replaying.refused <= _SHOWN:
            click.echo(harmless(sentence, "\n"), err=True)

    async with Client(url, token) as broker:
        replaying = Replaying(broker, recording, topics, refuse, progress)
        task = asyncio.ensure_future(replaying.run(speed, hurries=hurries))

        def end(number: int) -> None:
            codes.append(EXIT_CODES[number])
            task.cancel()

        at_stop_signals(end)
        await asyncio.wait([task])
        if not task.cancelled():
            task.result()
    return codes[-1], replaying
