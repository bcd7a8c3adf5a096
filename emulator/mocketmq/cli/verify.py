"""``mocketmq verify``, which checks a data directory for damage."""

from pathlib import Path
from typing import NamedTuple

import click

from mocketmq.cli.delay_directory import described_inspection, progress_over, summary_of
from mocketmq.cli.exit_codes import Exit, Failure
from mocketmq.cli.options import examples
from mocketmq.cli.output import Output
from mocketmq.cli.table import Table
from mocketmq.client.answer import JsonObject
from mocketmq.errors import StoreUnreadableError
from mocketmq.settings import Settings
from mocketmq.store.damage import Damage, check_file, check_log, find_all_damage, schema_of
from mocketmq.store.database import FILE_NAME, MEMORY
from mocketmq.store.tables import HEAD_REVISION
from mocketmq_compat.delay.inspection import Inspection, InspectionProgress
from mocketmq_compat.delay.schemes import SCHEMES

_MB = 1_000_000


class _Store(NamedTuple):
    """The result of checking the database."""

    file: Path
    schema: str | None
    size: int
    damage: list[Damage]


@click.command(epilog=examples("verify --data mocketmq-data", "verify --data backup --json"))
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    envvar="MOCKETMQ_DATA",
    default=Settings().data,
    show_default=True,
    help="Data directory to check.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
def verify(data: Path, as_json: bool) -> None:
    """Check a data directory for damage: the database with its indexes, and the files of delayed messages.

    The directory is not changed, and a broker may be running on it. SQLite has no checksums, so a change
    inside a body is not found. The exit code is 6 if there is damage, or a file in the quarantine.
    """
    if str(data) == MEMORY or not data.is_dir():
        raise click.BadParameter(f"{str(data)!r} is not a data directory", param_hint="--data")
    with progress_over(data) as meter:
        store = _check_store(data / FILE_NAME, meter)
        folders = {
            data / scheme.folder: scheme.inspect(data / scheme.folder, meter).verify()
            for scheme in SCHEMES.values()
            if (data / scheme.folder).is_dir()
        }
    is_good = not store.damage and all(report.is_good for report in folders.values())
    answer: JsonObject = {
        "directory": str(data),
        "is_good": is_good,
        "database": _described(store),
        "delayed": [described_inspection(*each) for each in folders.items()],
    }
    problems = [*_rows(store, folders)]
    parts = [Table(("where", "problem"), problems, folded="problem")] if problems else []
    said = [f"{folder.name}: {summary_of(report)}" for folder, report in folders.items()]
    Output(as_json).show(answer, *parts, _summary(store), *said)
    if not is_good:
        raise click.exceptions.Exit(Exit.DAMAGED)


def _check_store(database: Path, progress: InspectionProgress) -> _Store:
    """Check the database. Raises StoreUnreadableError unless it has this version or an earlier one."""
    if not database.exists():
        raise Failure(f"{database.parent} is not a data directory: it has no {FILE_NAME}", Exit.NOTHING)
    check_file(database, is_to_write=False)
    check_log(str(database))
    schema = schema_of(database)
    damage = find_all_damage(database, progress)
    if schema is None and not damage:
        raise StoreUnreadableError(
            f"{database} is a database of another program: it has no schema version. Give the data directory"
            " of a broker with --data"
        )
    if schema is not None and schema > HEAD_REVISION:
        raise StoreUnreadableError(
            f"{database} has schema {schema}; this version supports schemas up to {HEAD_REVISION}. Check it"
            " with"
            " the newer version that made it"
        )
    return _Store(database, schema, database.stat().st_size, damage)


def _described(store: _Store) -> JsonObject:
    return {
        "file": str(store.file),
        "schema": store.schema,
        "newest_schema": HEAD_REVISION,
        "size": store.size,
        "damage": [each._asdict() for each in store.damage],
    }


def _rows(store: _Store, folders: dict[Path, Inspection]) -> list[tuple[str, str]]:
    tables = [(each.table or FILE_NAME, each.problem) for each in store.damage]
    files = [
        (f"{folder.name}/{each.file}", f"{each.kind}: {each.reason}")
        for folder, report in folders.items()
        for each in (*report.problems, *report.quarantined)
    ]
    return tables + files


def _summary(store: _Store) -> str:
    schema = f"schema {store.schema or 'unknown'}"
    if store.schema is not None and store.schema < HEAD_REVISION:
        schema += f", which the next start upgrades to {HEAD_REVISION}"
    found = f"{len(store.damage):,} problems" if store.damage else "no problems"
    summary = f"{FILE_NAME}: {store.size / _MB:,.1f} MB, {schema}: {found}"
    return f"{summary}; restore the directory from a copy" if store.damage else summary
