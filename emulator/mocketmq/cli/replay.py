"""``mocketmq replay``, which plays a recording of messages or of requests on a broker."""

import asyncio
import math
from collections.abc import Coroutine
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from mocketmq.cli.as_typed import as_typed
from mocketmq.cli.connection import broker_options
from mocketmq.cli.exit_codes import Exit, Failure
from mocketmq.cli.long_running import until_signal
from mocketmq.cli.options import examples
from mocketmq.cli.output import Output
from mocketmq.cli.progress_line import ProgressLine
from mocketmq.cli.text import counted, harmless
from mocketmq.client.answer import BrokerError, UnreachableError
from mocketmq.client.asynchronous import Client
from mocketmq.clock import US_PER_MS
from mocketmq.duration import format_duration
from mocketmq.errors import EmulatorError, InvalidArgumentError
from mocketmq.message.names import check_topic_name
from mocketmq.recording.recording import RecordingError, RecordingReader
from mocketmq.recording.replaying import Replaying

if TYPE_CHECKING:
    from mocketmq.recording.requests.request_replay import RequestReplay

_SHOWN: Final = 10
"""Maximum number of refused messages that are named."""
_KINDS: Final = 30
"""Maximum number of kinds of differences that are printed."""
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
        "replay requests.jsonl --url http://127.0.0.1:19877",
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

    With a recording of requests (`mocketmq serve --record-requests`), send the requests again and show which
    answers differ from the recorded ones; the exit code is 1 if any do.

    The replay moves the clock, or waits for it; on a manual clock the spacing is exact. Queues, order, keys
    and delays are kept. If the replay moves the clock, it keeps moving it at the end until all messages are
    delivered.
    """
    if speed is not None and as_fast_as_possible:
        raise click.UsageError("--speed and --as-fast-as-possible cannot be combined")
    try:
        recording = RecordingReader(file)
    except RecordingError as error:
        raise Failure(str(error), Exit.USAGE) from error
    plan = _Plan(url, token, speed, as_fast_as_possible)
    output = Output(as_json)
    with recording:
        if recording.header.requests:
            if topics:
                raise click.UsageError("--topic-map maps topics of messages; this is a recording of requests")
            _replay_requests(recording, plan, output)
        else:
            _replay_messages(recording, plan, topics, output)


class _Plan(NamedTuple):
    """The broker and the speed."""

    url: str
    token: str | None
    speed: float | None
    hurries: bool


def _replay_messages(recording: RecordingReader, plan: _Plan, topics: dict[str, str], output: Output) -> None:
    async def run(progress: Any) -> tuple[int, Replaying, EmulatorError | None]:
        def refuse(sentence: str) -> None:
            if done.refused <= _SHOWN:
                click.echo(harmless(sentence, "\n"), err=True)

        async with Client(plan.url, plan.token) as broker:
            done = Replaying(broker, recording, topics, refuse, progress)
            code, failure = await _until_signal(done.run(plan.speed, hurries=plan.hurries))
            if done.began_ms and done.pending is None:
                with suppress(BrokerError, UnreachableError):
                    await done.look()
        return code, done, failure

    with ProgressLine() as progress:
        code, done, failure = asyncio.run(run(progress))
    if done.began_ms or failure is None:
        _show(done, output)
    _end(code, failure)
    if done.refused:
        raise Failure(f"the broker refused {counted(done.refused, 'message')}", Exit.REFUSED)


def _replay_requests(recording: RecordingReader, plan: _Plan, output: Output) -> None:
    from mocketmq.recording.requests.request_replay import (  # noqa: PLC0415 - rarely used
        HttpTarget,
        RequestReplay,
    )

    target = HttpTarget(plan.url.rstrip("/"), {"Authorization": f"Bearer {plan.token}"} if plan.token else {})

    async def run(progress: Any) -> tuple[int, RequestReplay, EmulatorError | None]:
        async with Client(plan.url, plan.token) as broker:
            done = RequestReplay(broker, recording, target, progress)
            code, failure = await _until_signal(done.run(plan.speed, hurries=plan.hurries))
        return code, done, failure

    with ProgressLine() as progress:
        code, done, failure = asyncio.run(run(progress))
    if done.pace.began_ms or failure is None:
        _show_findings(done, output)
    _end(code, failure)
    if differing := done.findings.differing:
        compared = counted(done.findings.compared, "answer")
        raise Failure(f"{differing:,} of {compared} differ", Exit.REFUSED)


def _end(code: int, failure: EmulatorError | None) -> None:
    """End the command if a signal or an error ended the replay."""
    if failure is not None:
        raise _failure_of(failure) from failure
    if code:
        raise click.exceptions.Exit(code)


def _show_findings(done: "RequestReplay", output: Output) -> None:
    """Print how many answers were compared, and each kind of difference with an example."""
    found = done.findings
    notes = {what: count for what, count in found.notes.items() if count}
    moved = {of: higher for of, higher in done.values.offsets.items() if higher}
    sentences = [
        f"{door}: {counted(count.compared, 'answer')} compared, {count.differing:,} differ"
        for door, count in found.doors.items()
    ]
    for each in list(found.kinds.values())[:_KINDS]:
        times = f" ({each.count:,} times)" if each.count > 1 else ""
        sentences.append(f"{each.door}, {each.operation}, line {each.line}: {each.text}{times}")
    if len(found.kinds) > _KINDS:
        sentences.append(f"and {len(found.kinds) - _KINDS:,} more; --json shows all")
    sentences += [
        f"offsets of {of} were {higher:+,} from those recorded when the replay began"
        for of, higher in moved.items()
    ][:_SHOWN]
    sentences += [f"{count:,} {what}" for what, count in notes.items()]
    if not found.doors:
        sentences.insert(0, "no request was replayed")
    output.show(
        {
            "compared": found.compared,
            "differing": found.differing,
            "doors": {door: count._asdict() for door, count in found.doors.items()},
            "differences": [each.as_dict() for each in found.kinds.values()],
            "moved_offsets": moved,
            "notes": notes,
        },
        *sentences,
    )


def _show(done: Replaying, output: Output) -> None:
    """Print what was sent, even if the replay ended early."""
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


async def _until_signal(replaying: Coroutine[Any, Any, None]) -> tuple[int, EmulatorError | None]:
    """Replay to the end, an error or a signal. Returns the signal's exit code, and the error."""
    try:
        code, _ = await until_signal(replaying)
    except _ERRORS as error:
        return 0, error
    return code, None
