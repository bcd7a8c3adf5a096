"""``mocketmq delayed`` on files: list, show, verify and import what waits in the folder of a delay scheme.

A broker may be running on it, or none.
"""

import sys
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
import msgspec

from mocketmq.cli.delayed import DIRECTORY
from mocketmq.cli.exit_codes import Exit, Failure
from mocketmq.cli.options import examples
from mocketmq.cli.output import Output, instant
from mocketmq.cli.progress_line import ProgressLine
from mocketmq.cli.table import Table
from mocketmq.cli.text import harmless, harmless_json
from mocketmq.client.answer import JsonObject
from mocketmq.clock import US_PER_MS
from mocketmq.errors import StoreUnavailableError
from mocketmq.message.message_id import offset_message_id
from mocketmq.message.properties import KEYS, TAGS
from mocketmq.settings import TimedSchemeName
from mocketmq.store.database import MEMORY
from mocketmq.store.lock import LOCK_FILE
from mocketmq_compat.delay.delayed_file import DamagedFileError, DelayedFile, decode, parse_name
from mocketmq_compat.delay.inspection import (
    FolderInspector,
    Inspection,
    InspectionProgress,
    KeptMessage,
    Trouble,
)
from mocketmq_compat.delay.offline import SchemeFolder, import_messages, sources_in
from mocketmq_compat.delay.schemes import DEFAULT, SCHEMES

_TROUBLE = ("file", "trouble", "reason")

_json = click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
_scheme = click.option(
    "--timed-scheme", "scheme", metavar="NAME", help="The delay scheme to look into, if --dir has several."
)


def show_list(
    output: Output,
    directory: Path,
    scheme: str | None,
    topic: str | None,
    max_messages: int,
    after: str | None,
) -> None:
    """``delayed ls --dir``: list the messages of a directory in order of due time."""
    behind = None if after is None else parse_name(after)
    if after is not None and behind is None:
        raise click.BadParameter(f"{after!r} is not the value that a page ended with", param_hint="--after")
    with _inspecting(directory, scheme) as (_, inspector):
        messages, troubles = inspector.first(max_messages, topic=topic, after=behind)
    more = messages[-1].entry.name if len(messages) == max_messages else None
    columns = ("due", "topic", ">queue", "message", "tag", "keys", ">size", "file")
    shown = [_described(each) for each in messages]
    rows = (
        (
            instant(each["due_ms"]),
            each["real_topic"],
            each["real_queue_id"],
            each["message_id"],
            each["tag"],
            " ".join(each["keys"]),
            each["size"],
            each["file"],
        )
        for each in shown
    )
    notes = [f"{len(troubles):,} skipped: see mocketmq delayed verify"] if troubles else []
    answer = {"messages": shown, "next_after": more, "troubles": _described_all(troubles)}
    found = Table(columns, rows, least=("keys", "tag", "size", "queue", "file", "topic", "due"))
    output.show_page(answer, found, "nothing is pending", *notes)


@click.command(
    epilog=examples(
        "delayed cat A53FE6E206FD1A204474F20000000000 --dir mocketmq-data",
        "delayed cat A53FE6E206FD1A204474F20000000000 --dir . --json",
    )
)
@click.option("--dir", "directory", type=DIRECTORY, help="Directory to look in, if no path is given.")
@_scheme
@click.option("--body", "is_body_only", is_flag=True, help="Write only the body, as raw bytes.")
@_json
@click.argument("wanted", metavar="ID|FILE")
def cat(directory: Path | None, scheme: str | None, is_body_only: bool, as_json: bool, wanted: str) -> None:
    """Show the header and the body of a message.

    It is found by the path of its file; or in --dir, the folder of a delay scheme or a data directory, by its
    message id, its offset message id, or the name of its file as "delayed ls" shows it.
    """
    if is_body_only and as_json:
        raise click.UsageError("only one of --body and --json can be given")
    is_file = Path(wanted).is_file()
    name, file = _file_at(Path(wanted)) if is_file else _file_in(directory, scheme, wanted)
    if is_body_only:
        sys.stdout.buffer.write(file.body)
        return
    try:
        text, binary = file.body.decode(), None
    except UnicodeDecodeError:
        text, binary = None, b64encode(file.body).decode()
    header = msgspec.json.format(msgspec.json.encode(file.header), indent=2).decode()
    body = f"a body of {_count(len(file.body), 'byte')} that is not text: write it with --body"
    Output(as_json).show(
        {"file": name, "header": msgspec.to_builtins(file.header), "body": text, "body_base64": binary},
        harmless_json(header),
        "",
        body if text is None else harmless(text, "\n"),
    )


@click.command(epilog=examples("delayed verify --dir mocketmq-data"))
@click.option(
    "--dir", "directory", type=DIRECTORY, required=True, help="Folder of a delay scheme, or data directory."
)
@_scheme
@_json
def verify(directory: Path, scheme: str | None, as_json: bool) -> None:
    """Check everything that waits in a directory: content, checksum, name, place, duplicates.

    The exit code is 6 if anything is wrong, or if anything is in the quarantine.
    """
    with _inspecting(directory, scheme) as (root, inspector):
        report = inspector.verify()
    troubles = [*report.troubles, *report.quarantined]
    answer = described_inspection(root, report)
    parts = [Table(_TROUBLE, troubles, least=("trouble",), folded="reason")] if troubles else []
    Output(as_json).show(answer, *parts, summary_of(report))
    if not report.is_good:
        raise click.exceptions.Exit(Exit.DAMAGED)


@click.command(
    "import",
    epilog=examples(
        "delayed import backup/delay --data mocketmq-data",
        "delayed import mocketmq-data --data new --timed-scheme directories",
    ),
)
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    envvar="MOCKETMQ_DATA",
    required=True,
    help="Data directory to import into; its broker must not be running.",
)
@click.option(
    "--timed-scheme",
    "scheme",
    type=click.Choice([*SCHEMES]),
    envvar="MOCKETMQ_TIMED_SCHEME",
    default=DEFAULT,
    show_default=True,
    help="The delay scheme of the broker that is to deliver the messages.",
)
@_json
@click.argument("source", type=DIRECTORY)
def import_(data: Path, scheme: TimedSchemeName, as_json: bool, source: Path) -> None:
    """Import the messages of another directory, or of another delay scheme.

    SOURCE is a delay directory or a data directory. Its messages are copied. A message that the data
    directory has already is not imported again, and one that its broker has delivered is not delivered again.
    If SOURCE is the data directory itself, the scheme takes over what waits in the others, whose folders are
    then renamed. The exit code is 6 if any message was not imported.
    """
    folders = {place.folder for place in SCHEMES.values()}
    if str(data) == MEMORY or (data.name in folders and (data.parent / LOCK_FILE).exists()):
        raise click.BadParameter(f"{data} is not a data directory", param_hint="--data")
    target = (data / SCHEMES[scheme].folder).resolve()
    with _sources(source) as (found, progress):
        sources = [each for each in found if each.folder.resolve() != target]
        if not sources:
            raise click.BadParameter(f"{source} is the directory to import into", param_hint="SOURCE")
        done = import_messages(data, scheme, sources, progress)
    parts = [Table(_TROUBLE, done.troubles, least=("trouble",), folded="reason")] if done.troubles else []
    told = f"imported {_count(done.imported, 'message')}, {_count(done.bytes, 'byte')}"
    told += f"; there already: {done.already_there:,}; not imported: {len(done.troubles):,}"
    Output(as_json).show(done._asdict() | {"troubles": _described_all(done.troubles)}, *parts, told)
    if done.troubles:
        raise click.exceptions.Exit(Exit.DAMAGED)


@contextmanager
def _inspecting(directory: Path, scheme: str | None) -> Iterator[tuple[Path, FolderInspector]]:
    """The folder to look into, and who does. Raises StoreUnavailableError for an OSError."""
    if scheme is not None and scheme not in SCHEMES:
        raise click.BadParameter(
            f"{scheme!r} is no delay scheme; allowed: {', '.join(SCHEMES)}", param_hint="--timed-scheme"
        )
    with progress_over(directory) as meter:
        source = _source(directory, scheme)
        yield source.folder, SCHEMES[source.scheme].inspect(source.folder, meter)


def _source(directory: Path, scheme: str | None) -> SchemeFolder:
    """The folder of this scheme in the directory; without a scheme, the one that has messages."""
    found = sources_in(directory)
    if scheme is not None:
        found = [each for each in found if each.scheme == scheme]
    if not found:
        raise _nothing_delayed(directory, scheme)
    holding = [each for each in found if SCHEMES[each.scheme].holds_messages(each.folder)]
    if len(holding) > 1:
        names = " and ".join(each.scheme for each in holding)
        raise click.UsageError(f"the schemes {names} have messages in {directory}; choose: --timed-scheme")
    return (holding or found)[0]


@contextmanager
def _sources(directory: Path) -> Iterator[tuple[list[SchemeFolder], InspectionProgress]]:
    """The folders with messages in a directory. Raises StoreUnavailableError for an OSError."""
    with progress_over(directory) as meter:
        found = sources_in(directory)
        if not found:
            raise _nothing_delayed(directory, None)
        yield found, meter


@contextmanager
def progress_over(root: Path) -> Iterator[InspectionProgress]:
    """A progress line for reading this directory. Raises StoreUnavailableError for an OSError."""
    try:
        with ProgressLine() as meter:
            yield meter
    except OSError as error:
        raise StoreUnavailableError(f"{error.filename or root} cannot be read: {error.strerror}") from error


def _nothing_delayed(directory: Path, scheme: str | None) -> Failure:
    if scheme is not None:
        return Failure(f"{directory} has no folder of the delay scheme {scheme}", Exit.NOTHING)
    return Failure(f"{directory} is a data directory in which nothing was ever delayed", Exit.NOTHING)


def _file_at(path: Path) -> tuple[str, DelayedFile]:
    try:
        return str(path), decode(path.read_bytes())
    except DamagedFileError as error:
        raise Failure(f"{path}: {error}", Exit.DAMAGED) from error
    except OSError as error:
        raise StoreUnavailableError(f"{path} cannot be read: {error.strerror}") from error


def _file_in(directory: Path | None, scheme: str | None, wanted: str) -> tuple[str, DelayedFile]:
    if directory is None:
        raise click.UsageError(f"there is no file {wanted!r}; name the directory of the message with --dir")
    with _inspecting(directory, scheme) as (root, inspector):
        found = inspector.find(wanted)
    match found:
        case []:
            raise Failure(f"no file in {root} holds a message {wanted}", Exit.NOTHING)
        case [KeptMessage() as one]:
            return one.file, one.message
        case [Trouble() as trouble]:
            raise Failure(f"{trouble.file}: {trouble.reason}", Exit.DAMAGED)
    files = ", ".join(each.file for each in found)
    raise Failure(f"several files match {wanted}; name one of them: {files}", Exit.USAGE)


def _described(each: KeptMessage) -> JsonObject:
    """The fields of a broker's list that a message has without a broker, and its file."""
    header = each.message.header
    return {
        "message_id": header.unique_key,
        "offset_message_id": offset_message_id(header.store_host, header.number),
        "due_ms": each.entry.due_ms,
        "real_topic": header.topic,
        "real_queue_id": header.queue_id,
        "tag": header.properties.get(TAGS),
        "keys": header.properties.get(KEYS, "").split(),
        "properties": header.properties,
        "born_ms": header.born_us // US_PER_MS,
        "store_ms": header.stored_us // US_PER_MS,
        "reconsume_times": header.reconsume_times,
        "size": header.size,
        "file": each.file,
    }


def _described_all(troubles: list[Trouble]) -> list[JsonObject]:
    return [trouble._asdict() for trouble in troubles]


def described_inspection(root: Path, report: Inspection) -> JsonObject:
    """What a check of a folder has found, as JSON."""
    return report._asdict() | {
        "directory": str(root),
        "is_good": report.is_good,
        "troubles": _described_all(report.troubles),
        "quarantined": _described_all(report.quarantined),
    }


def summary_of(report: Inspection) -> str:
    """What a check of a folder has found, in a sentence."""
    told = f"{_count(report.messages, 'message')} in {_count(report.files, 'file')}"
    told += f", {_count(report.bytes, 'byte')}"
    if report.messages:
        told += f", due from {instant(report.first_due_ms)} to {instant(report.last_due_ms)}"
    if report.temporary:
        told += f"; {report.temporary:,} temporary, still being written or left by a kill"
    if report.is_good:
        return f"{told}: nothing is wrong"
    return f"{told}: {len(report.troubles):,} wrong, {len(report.quarantined):,} in the quarantine"


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
