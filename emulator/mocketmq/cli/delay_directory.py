"""``mocketmq delayed`` on files, which lists, shows, verifies and imports messages of a delay scheme.

A broker may use the folder at the same time, except during an import.
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
from mocketmq.cli.text import counted, harmless, harmless_json
from mocketmq.client.answer import JsonObject
from mocketmq.clock import US_PER_MS
from mocketmq.errors import StoreUnavailableError
from mocketmq.message.body import text_of
from mocketmq.message.message_id import offset_message_id
from mocketmq.message.properties import KEYS, TAGS
from mocketmq.settings import TimedSchemeName
from mocketmq.store.database import MEMORY
from mocketmq.store.lock import LOCK_FILE
from mocketmq_compat.delay.delayed_file import DamagedFileError, DelayedFile, decode, parse_name
from mocketmq_compat.delay.inspection import (
    FolderInspector,
    FolderProblem,
    Inspection,
    InspectionProgress,
    KeptMessage,
)
from mocketmq_compat.delay.offline import SchemeFolder, import_messages, sources_in
from mocketmq_compat.delay.schemes import DEFAULT, SCHEMES

_PROBLEM = ("file", "problem", "reason")

_json = click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
_scheme = click.option(
    "--timed-scheme", "scheme", metavar="NAME", help="The delay scheme to read, if --dir contains several."
)


def show_list(
    output: Output,
    directory: Path,
    scheme: str | None,
    topic: str | None,
    max_messages: int,
    after: str | None,
) -> None:
    """List the messages of a directory in order of due time, for ``delayed ls --dir``."""
    behind = None if after is None else parse_name(after)
    if after is not None and behind is None:
        raise click.BadParameter(
            f"{after!r} is not the end of a page; allowed: next_after of the previous page",
            param_hint="--after",
        )
    with _inspecting(directory, scheme) as (_, inspector):
        messages, problems = inspector.first_messages(max_messages, topic=topic, after=behind)
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
    notes = [f"{len(problems):,} skipped: see mocketmq delayed verify"] if problems else []
    answer = {"messages": shown, "next_after": more, "problems": _described_all(problems)}
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

    The argument is the path of the message's file. With --dir, the folder of a delay scheme or a data
    directory, it may also be the message id, the offset message id, or the name of the file that
    "delayed ls" shows.
    """
    if is_body_only and as_json:
        raise click.UsageError("only one of --body and --json can be given")
    is_file = Path(wanted).is_file()
    name, file = _file_at(Path(wanted)) if is_file else _file_in(directory, scheme, wanted)
    if is_body_only:
        sys.stdout.buffer.write(file.body)
        return
    text = text_of(file.body)
    binary = b64encode(file.body).decode() if text is None else None
    header = msgspec.json.format(msgspec.json.encode(file.header), indent=2).decode()
    body = f"a body of {counted(len(file.body), 'byte')} that is not text: write it with --body"
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
    """Check all pending messages in a directory: content, checksum, name, place, duplicates.

    The exit code is 6 if there are problems, or files in the quarantine.
    """
    with _inspecting(directory, scheme) as (root, inspector):
        report = inspector.verify()
    problems = [*report.problems, *report.quarantined]
    answer = described_inspection(root, report)
    parts = [Table(_PROBLEM, problems, least=("problem",), folded="reason")] if problems else []
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
    help="Data directory to import into, which no running broker may use.",
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

    SOURCE is the folder of a delay scheme, or a data directory. Its messages are copied. A message that the
    data directory already has is not imported again, and a message that its broker has delivered is not
    delivered again. If SOURCE is the data directory itself, the scheme takes over the messages of the other
    schemes, whose folders are then renamed. The exit code is 6 if any message was not imported.
    """
    folders = {place.folder for place in SCHEMES.values()}
    if str(data) == MEMORY or (data.name in folders and (data.parent / LOCK_FILE).exists()):
        raise click.BadParameter(f"{data} is not a data directory", param_hint="--data")
    target = (data / SCHEMES[scheme].folder).resolve()
    with _sources(source) as (found, progress):
        sources = [each for each in found if each.folder.resolve() != target]
        if not sources:
            raise click.BadParameter(f"{source} is also the directory to import into", param_hint="SOURCE")
        done = import_messages(data, scheme, sources, progress)
    parts = [Table(_PROBLEM, done.problems, least=("problem",), folded="reason")] if done.problems else []
    summary = f"imported {counted(done.imported, 'message')}, {counted(done.bytes, 'byte')}"
    summary += f"; there already: {done.already_there:,}; not imported: {len(done.problems):,}"
    Output(as_json).show(done._asdict() | {"problems": _described_all(done.problems)}, *parts, summary)
    if done.problems:
        raise click.exceptions.Exit(Exit.DAMAGED)


@contextmanager
def _inspecting(directory: Path, scheme: str | None) -> Iterator[tuple[Path, FolderInspector]]:
    """Yield the folder and its inspector. Raises StoreUnavailableError for an OSError."""
    if scheme is not None and scheme not in SCHEMES:
        raise click.BadParameter(
            f"{scheme!r} is not a delay scheme; allowed: {', '.join(SCHEMES)}", param_hint="--timed-scheme"
        )
    with progress_over(directory) as meter:
        source = _source(directory, scheme)
        yield source.folder, SCHEMES[source.scheme].inspect(source.folder, meter)


def _source(directory: Path, scheme: str | None) -> SchemeFolder:
    """Find the scheme's folder in the directory; without a scheme, the only folder with messages."""
    found = sources_in(directory)
    if scheme is not None:
        found = [each for each in found if each.scheme == scheme]
    if not found:
        raise _nothing_delayed(directory, scheme)
    holding = [each for each in found if SCHEMES[each.scheme].holds_messages(each.folder)]
    if len(holding) > 1:
        names = " and ".join(each.scheme for each in holding)
        raise click.UsageError(
            f"{directory} contains messages of {names}; choose one of these schemes with --timed-scheme"
        )
    return (holding or found)[0]


@contextmanager
def _sources(directory: Path) -> Iterator[tuple[list[SchemeFolder], InspectionProgress]]:
    """Yield the folders with messages in a directory. Raises StoreUnavailableError for an OSError."""
    with progress_over(directory) as meter:
        found = sources_in(directory)
        if not found:
            raise _nothing_delayed(directory, None)
        yield found, meter


@contextmanager
def progress_over(root: Path) -> Iterator[InspectionProgress]:
    """Show a progress line while reading this directory. Raises StoreUnavailableError for an OSError."""
    try:
        with ProgressLine() as meter:
            yield meter
    except OSError as error:
        raise StoreUnavailableError(f"{error.filename or root} cannot be read: {error.strerror}") from error


def _nothing_delayed(directory: Path, scheme: str | None) -> Failure:
    if scheme is not None:
        return Failure(f"{directory} contains no folder of the delay scheme {scheme}", Exit.NOTHING)
    return Failure(f"{directory} has never contained a delayed message", Exit.NOTHING)


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
        found = inspector.find_messages(wanted)
    match found:
        case []:
            raise Failure(f"no file in {root} contains a message {wanted}", Exit.NOTHING)
        case [KeptMessage() as one]:
            return one.file, one.message
        case [FolderProblem() as problem]:
            raise Failure(f"{problem.file}: {problem.reason}", Exit.DAMAGED)
    files = ", ".join(each.file for each in found)
    raise Failure(f"several files match {wanted}; name one of them: {files}", Exit.USAGE)


def _described(each: KeptMessage) -> JsonObject:
    """Describe a message as JSON: its file, and the fields of a broker's list as far as the file has them."""
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


def _described_all(problems: list[FolderProblem]) -> list[JsonObject]:
    return [problem._asdict() for problem in problems]


def described_inspection(root: Path, report: Inspection) -> JsonObject:
    """Describe the result of a check as JSON."""
    return report._asdict() | {
        "directory": str(root),
        "is_good": report.is_good,
        "problems": _described_all(report.problems),
        "quarantined": _described_all(report.quarantined),
    }


def summary_of(report: Inspection) -> str:
    """Describe the result of a check in a sentence."""
    summary = f"{counted(report.messages, 'message')} in {counted(report.files, 'file')}"
    summary += f", {counted(report.bytes, 'byte')}"
    if report.messages:
        summary += f", due from {instant(report.first_due_ms)} to {instant(report.last_due_ms)}"
    if report.temporary:
        summary += f"; {report.temporary:,} temporary, still being written or left by a kill"
    if report.is_good:
        return f"{summary}: no problems"
    return f"{summary}: {len(report.problems):,} problems, {len(report.quarantined):,} in the quarantine"
