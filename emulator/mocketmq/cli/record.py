"""``mocketmq record``, which records the messages of a real cluster."""

import asyncio
import re
import secrets
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

import click

from mocketmq.calling.call import ClusterError, NoAnswerError
from mocketmq.cli.cluster_access import access_of, access_options
from mocketmq.cli.exit_codes import Exit, Failure
from mocketmq.cli.options import examples
from mocketmq.cli.output import Output
from mocketmq.cli.progress_line import ProgressLine
from mocketmq.cli.signals import EXIT_CODES, at_stop_signals
from mocketmq.clock import US_PER_MS, US_PER_S, wall_us
from mocketmq.duration import parse_duration_us
from mocketmq.errors import InvalidArgumentError
from mocketmq.instant import parse_instant_ms
from mocketmq.message.names import check_topic_name
from mocketmq.recording.cluster_recorder import Begin, ClusterRecorder, Progress, RecordingPlan
from mocketmq.recording.masks import Masks
from mocketmq.recording.recording import RecordingError

_MOMENTS: Final = (
    "a time of the last 24 hours such as 15:00, a duration from now such as -2h, or an instant such as"
    " 2030-01-31T08:00:00Z"
)
_NO_GRPC: Final = (
    "--grpc cannot be recorded from: gRPC reads a message only by receiving it, which hides it from the"
    " cluster's own consumers and counts as an attempt. Give --name-server"
)
_LARGEST_KEY: Final = 4096


def _begin(_context: click.Context, _option: click.Parameter, text: str | None) -> Begin:
    if text is None:
        return Begin()
    if re.fullmatch("[0-9]{1,12}", text):  # instants in milliseconds have 13 digits
        return Begin(offset=int(text))
    return Begin(from_ms=_moment_ms(text, f"{_MOMENTS}; or an offset such as 1000"))


def _until(_context: click.Context, _option: click.Parameter, text: str | None) -> int | None:
    return None if text is None else _moment_ms(text, f"{_MOMENTS}, or +10m to wait for new messages")


def _moment_ms(text: str, allowed: str) -> int:
    """Parse a moment into epoch milliseconds. Raises click.BadParameter."""
    now_us = wall_us()
    try:
        if re.fullmatch("[0-9]{1,2}:[0-9]{2}(?::[0-9]{2})?", text):
            now = datetime.fromtimestamp(now_us / US_PER_S).astimezone()
            hour, minute, second = ([int(each) for each in text.split(":")] + [0])[:3]
            at = now.replace(hour=hour, minute=minute, second=second, microsecond=0)
            return round((at - timedelta(days=at > now)).timestamp() * 1_000)
        if text[:1] in ("-", "+"):
            us = parse_duration_us(text[1:])
            return (now_us + us if text[0] == "+" else now_us - us) // US_PER_MS
        return parse_instant_ms(text)
    except (InvalidArgumentError, ValueError):
        raise click.BadParameter(f"{text!r}; allowed: {allowed}") from None


def _rate(_context: click.Context, _option: click.Parameter, text: str) -> int:
    found = re.fullmatch("([1-9][0-9]{0,6})(?:/s)?", text)
    if found is None:
        raise click.BadParameter(f"{text!r}; allowed: messages a second from 1 to 9999999, such as 500/s")
    return int(found[1])


def _key(path: Path | None) -> bytes:
    if path is None:
        return secrets.token_bytes(32)
    try:
        with path.open("rb") as file:
            key = file.read(_LARGEST_KEY)
    except OSError as error:
        raise click.UsageError(
            f"--mask-key is {str(path)!r}; allowed: a readable file ({error.strerror})"
        ) from None
    if len(key) < 16:
        raise click.UsageError(f"--mask-key has {len(key)} bytes; allowed: 16 or more")
    return key


@click.command(
    epilog=examples(
        "record --name-server 10.0.0.5:9876 --topic orders --to a.jsonl",
        "record --name-server n:9876 --topic a --mask body.tel --to a.jsonl",
        "record --name-server n:9876 --topic a --until +10m --to a.jsonl",
    )
)
@click.option("--name-server", "name_servers", metavar="HOST:PORT[,…]", help="Name servers of the cluster.")
@click.option("--grpc", hidden=True)
@click.option("--topic", "topics", multiple=True, required=True, help="Topic to record; may be repeated.")
@click.option(
    "--from",
    "begin",
    metavar="TIME|OFFSET",
    callback=_begin,
    help="Begin at 15:00, -2h, an instant, or an offset of each queue.  [default: the oldest message]",
)
@click.option(
    "--until",
    "until_ms",
    metavar="TIME",
    callback=_until,
    help="End at this time; +10m waits for new messages.  [default: the messages that are there]",
)
@click.option("--limit", type=click.IntRange(min=1), help="Maximum number of messages.")
@click.option(
    "--to",
    "file",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    help="Recording to write; the file must not exist, unless --resume is given.",
)
@click.option("--resume", is_flag=True, help="Continue the recording in the file of --to, where it ended.")
@click.option(
    "--mask",
    "masks",
    multiple=True,
    metavar="PLACE[=hash]",
    help="Star, or hash, what must not leave: body.phone, properties.NAME, keys, …; may be repeated.",
)
@click.option(
    "--mask-key",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File with the key of hashes, for equal hashes in several recordings.  [default: a random key]",
)
@click.option(
    "--rate", default="1000/s", show_default=True, callback=_rate, help="Messages to read a second, at most."
)
@access_options
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
def record(
    name_servers: str | None,
    grpc: str | None,
    topics: tuple[str, ...],
    begin: Begin,
    until_ms: int | None,
    limit: int | None,
    file: Path,
    resume: bool,
    masks: tuple[str, ...],
    mask_key: Path | None,
    rate: int,
    as_json: bool,
    **access: Any,
) -> None:
    """Record the messages of a real RocketMQ, read-only, for `mocketmq replay`.

    Nothing is written to the cluster: no offset, no group, no topic. Ctrl-C ends the recording, and --resume
    continues it. The file and the masks are described in docs/record-and-replay.md.
    """
    if grpc is not None:
        raise click.UsageError(_NO_GRPC)
    if name_servers is None:
        raise click.UsageError("give --name-server HOST:PORT")
    if resume and begin != Begin():
        raise click.UsageError("--from has no effect with --resume, which continues where the file ends")
    try:
        for topic in topics:
            check_topic_name(topic)
        masking = Masks(masks, _key(mask_key))
    except InvalidArgumentError as error:
        raise click.UsageError(str(error)) from error
    credentials, tls = access_of(**access, checks_host=False)
    plan = RecordingPlan(tuple(dict.fromkeys(topics)), begin, until_ms, limit, rate)
    try:
        with ProgressLine() as progress:
            code, recorder = asyncio.run(
                _run(name_servers, plan, masking, credentials, tls, file, resumes=resume, progress=progress)
            )
    except ClusterError as error:
        code = Exit.NOT_READY if isinstance(error, NoAnswerError) else Exit.REFUSED
        raise Failure(str(error), code) from error
    except RecordingError as error:
        raise Failure(str(error), Exit.USAGE) from error
    summary = recorder.summary
    counts = {what: count for what, count in summary.counts.items() if count}
    Output(as_json).show(
        {"recording": str(file), "messages": summary.messages, "delayed": summary.delayed, "notes": counts},
        f"recorded {summary.messages} messages into {file}, of which {summary.delayed} were delayed",
        *(f"{count} {what}" for what, count in counts.items()),
        f"play them: mocketmq replay {file}",
    )
    if code:
        raise click.exceptions.Exit(code)
    if not summary.messages:
        raise Failure("no message was found", Exit.NOTHING)


async def _run(
    name_servers: str,
    plan: RecordingPlan,
    masks: Masks,
    *access: Any,
    resumes: bool,
    progress: Progress,
) -> tuple[int, ClusterRecorder]:
    """Record until the plan is fulfilled or a signal arrives. Returns the exit code and the recorder."""
    credentials, tls, file = access
    recorder, codes = ClusterRecorder(name_servers, plan, masks, credentials, tls), [0]
    task = asyncio.ensure_future(recorder.run(file, resumes=resumes, progress=progress))

    def end(number: int) -> None:
        codes.append(EXIT_CODES[number])
        task.cancel()

    at_stop_signals(end)
    await asyncio.wait([task])
    if not task.cancelled():
        task.result()
    return codes[-1], recorder
