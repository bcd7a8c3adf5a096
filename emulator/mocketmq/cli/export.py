"""``mocketmq export``, which writes the ledger as Parquet."""

from pathlib import Path

import click

from mocketmq.cli.exit_codes import Exit, Failure
from mocketmq.cli.options import examples
from mocketmq.cli.output import Output
from mocketmq.cli.progress_line import ProgressLine

_EXTRA = {"adbc_driver_manager", "adbc_driver_sqlite", "numpy", "pyarrow"}


@click.command(epilog=examples("export mocketmq-data ledger"))
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
@click.argument("data", type=click.Path(exists=True, path_type=Path))
@click.argument("out", type=click.Path(file_okay=False, path_type=Path))
def export(as_json: bool, data: Path, out: Path) -> None:
    """Write the ledger of DATA as Parquet below the folder OUT.

    DATA is a data directory, or its mocketmq.db; its broker may be running. `mocketmq report` reads the
    result: deliveries by day and run, undelivered messages, runs, and clock moves. Several stores may share a
    folder; exporting a store again replaces its files.
    """
    try:
        from mocketmq_report.interruption import ended_by_signals  # noqa: PLC0415 - part of an extra
        from mocketmq_report.ledger.export import export as write  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in _EXTRA:
            raise
        raise Failure(
            f"exporting needs {error.name}, which is not installed: install mocketmq with its extra 'report'",
            Exit.USAGE,
        ) from error
    with ProgressLine() as meter:
        done = ended_by_signals(lambda: write(data, out, meter))
    told = f"exported {done.rows:,} rows of {done.runs:,} runs to {out}"
    Output(as_json).show(done._asdict(), f"{told}: {done.files:,} files, {done.bytes:,} bytes")
