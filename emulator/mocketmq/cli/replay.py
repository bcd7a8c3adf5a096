"""``mocketmq replay``, which sends a recording to a broker on its movable clock."""

import asyncio
import math
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import click

from mocketmq.cli.amounts import counted
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
from mocketmq.errors import EmulatorError, InvalidArgumentError
from mocketmq.message.names import check_topic_name
from mocketmq.recording.recording import RecordingError, RecordingReader
from mocketmq.recording.replaying import Replaying

_SHOWN: Final = 10
"""Maximum number of refused messages that are named."""
_ERRORS: Final = (InvalidArgumentError, RecordingError, BrokerError, UnreachableError)


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
    help="Recorded seconds per real second.  [default: the rate of the broker's clock]",
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
            code, done, failure = asyncio.run(
                _run(url, token, recording, topics, speed, progress, hurries=as_fast_as_possible)
            )
    finally:
        recording.close()
    if done.began_ms or failure is None:
        _show(done, Output(as_json))
    if failure is not None:
        raise _failure_of(failure) from failure
    if code:
        raise click.exceptions.Exit(code)
    if done.refused:
        raise Failure(f"the broker refused {counted(done.refused, 'message')}", Exit.REFUSED)


def _show(done: Replaying, output: Output) -> None:
    """Print what was sent, also of a replay that ended early."""
    names = ("sent", "delayed", "refused", "skipped", "began_ms", "now_ms", "pending")
    span = format_duration((done.now_ms - done.began_ms) * US_PER_MS)
    sent = counted(done.sent, "message")
    sentences = [f"sent {sent}, {done.delayed:,} of them delayed, in {span} of the broker's clock"]
    if done.skipped:
        sentences.append(f"skipped {counted(done.skipped, 'message')} of system topics")
    if done.pending is not None:
        sentences.append(f"{counted(done.pending, 'message')} pending")
    if done.delayed:
        sentences.append("Lateness of the delayed messages: mocketmq report --quick")
    output.show({name: getattr(done, name) for name in names}, *sentences)


def _failure_of(error: EmulatorError) -> Failure:
    match error:
        case BrokerError():
            return Failure(as_typed(error), Exit.REFUSED)
        case InvalidArgumentError():
            return Failure(as_typed(error), Exit.USAGE)
        case UnreachableError():
            return Failure(str(error), Exit.NOT_READY)
    return Failure(str(error), Exit.USAGE)


async def _run(
    url: str,
    token: str | None,
    recording: RecordingReader,
    topics: dict[str, str],
    speed: float | None,
    progress: Any,
    *,
    hurries: bool,
) -> tuple[int, Replaying, EmulatorError | None]:
    """Replay to the end, an error or a signal. Returns the signal's exit code, the replay and the error."""
    codes, failure = [0], None

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
            try:
                task.result()
            except _ERRORS as error:
                failure = error
        if replaying.began_ms and replaying.pending is None:
            with suppress(BrokerError, UnreachableError):
                await replaying.look()
    return codes[-1], replaying, failure
