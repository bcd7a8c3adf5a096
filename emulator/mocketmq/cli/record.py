"""``mocketmq record``, which records the messages of a real cluster."""

import asyncio
import re
import secrets
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

import click

from mocketmq.calling.call import ClusterAccess, ClusterError, NoAnswerError
from mocketmq.cli.cluster_access import access_options
from mocketmq.cli.exit_codes import Exit, Failure
from mocketmq.cli.long_running import until_signal
from mocketmq.cli.options import examples
from mocketmq.cli.output import Output
from mocketmq.cli.progress_line import ProgressLine
from mocketmq.cli.text import counted, harmless
from mocketmq.clock import US_PER_MS, US_PER_S, wall_us
from mocketmq.duration import parse_duration_us
from mocketmq.errors import InvalidArgumentError
from mocketmq.instant import format_instant, parse_instant_ms
from mocketmq.message.names import check_topic_name
from mocketmq.recording.cluster_recorder import Begin, ClusterRecorder, RecordingPlan
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
    return Begin(from_ms=moment_ms(text, f"{_MOMENTS}; or an offset such as 1000"))


def _until(_context: click.Context, _option: click.Parameter, text: str | None) -> int | None:
    return None if text is None else moment_ms(text, f"{_MOMENTS}, or +10m to wait for new messages")


def moment_ms(text: str, allowed: str) -> int:
    """Parse a moment into epoch milliseconds. Raises click.BadParameter."""
    now_us = wall_us()
    try:
        if re.fullmatch("[0-9]{1,2}:[0-9]{2}(?::[0-9]{2})?", text):
            return _last_time_ms([int(each) for each in text.split(":")], now_us)
        if text[:1] in ("-", "+"):
            us = parse_duration_us(text[1:])
            return (now_us + us if text[0] == "+" else now_us - us) // US_PER_MS
        return parse_instant_ms(text)
    except (InvalidArgumentError, ValueError):
        raise click.BadParameter(f"{text!r}; allowed: {allowed}") from None


def _last_time_ms(time: Sequence[int], now_us: int) -> int:
    """Return the last instant at which local clocks showed this time of day. Raises ValueError.

    Some days have 23 or 25 hours, so the time of day is found in local time, and converted last.
    """
    hour, minute, second = [*time, 0][:3]
    today = datetime.fromtimestamp(now_us / US_PER_S).replace(  # noqa: DTZ006 - local time
        hour=hour, minute=minute, second=second, microsecond=0
    )
    seconds = [
        (today - timedelta(days=days)).replace(fold=fold).astimezone().timestamp()
        for days in (0, 1)
        for fold in (0, 1)
    ]
    return round(max(each for each in seconds if each * US_PER_S <= now_us) * 1_000)


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
    help="Mask or hash these values: body.phone, properties.NAME, keys, …; may be repeated.",
)
@click.option(
    "--mask-key",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File with the key of hashes, for equal hashes in several recordings.  [default: a random key]",
)
@click.option(
    "--rate", default="1000/s", show_default=True, callback=_rate, help="Maximum messages read per second."
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
    access: Callable[[], ClusterAccess],
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
    if until_ms is not None and begin.from_ms is not None and until_ms <= begin.from_ms:
        until, start = (format_instant(ms * US_PER_MS) for ms in (until_ms, begin.from_ms))
        raise click.UsageError(f"--until is {until}; allowed: a time after that of --from, which is {start}")
    plan = RecordingPlan(tuple(dict.fromkeys(topics)), begin, until_ms, limit, rate)
    recorder = ClusterRecorder(name_servers, plan, masking, access())
    summary = recorder.summary
    try:
        with ProgressLine() as progress:
            recording = recorder.run(file, resumes=resume, progress=progress)
            code, _ = asyncio.run(until_signal(recording))
    except ClusterError as error:
        code = Exit.NOT_READY if isinstance(error, NoAnswerError) else Exit.REFUSED
        raise Failure(str(error), code) from error
    except RecordingError as error:
        raise Failure(str(error), Exit.USAGE) from error
    finally:
        if summary.messages:
            _warn(masking, file)
    if code and not summary.is_begun:
        click.echo(f"nothing was recorded into {file}: the recording ended before it began", err=True)
        raise click.exceptions.Exit(code)
    notes = {what: count for what, count in summary.counts.items() if count}
    if summary.messages:
        notes |= {f"matches of --mask {text}": 0 for text, count in masking.matches.items() if not count}
    recorded = counted(summary.messages, "message")
    Output(as_json).show(
        {"recording": str(file), "messages": summary.messages, "delayed": summary.delayed, "notes": notes},
        f"recorded {recorded} into {file}, {summary.delayed:,} of them delayed",
        *(f"{count:,} {what}" for what, count in notes.items()),
        f"Replay: mocketmq replay {file}",
    )
    if code:
        raise click.exceptions.Exit(code)
    if not summary.messages:
        raise Failure("no message was found", Exit.NOTHING)


def _warn(masks: Masks, file: Path) -> None:
    """Warn of masks that matched nothing, because the data that they should hide may be in the recording."""
    for text, count in masks.matches.items():
        if not count:
            sentence = f"warning: --mask {text} matched nothing, so {file} may contain what it should hide"
            click.echo(harmless(sentence, "\n"), err=True)
