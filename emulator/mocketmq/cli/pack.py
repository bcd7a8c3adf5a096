"""``mocketmq pack``."""

import sys
from pathlib import Path

import click

from mocketmq.cli.connection import with_broker
from mocketmq.cli.exit_codes import Exit, Failure
from mocketmq.cli.options import examples
from mocketmq.cli.output import Output
from mocketmq.client.blocking import BlockingClient


@click.command(epilog=examples("pack failed.mocketmq", "pack failed.mocketmq --test t7 --failure trace.txt"))
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--test", default="", help="Name of the test that failed.")
@click.option(
    "--failure",
    "failure_file",
    metavar="TEXTFILE",
    help="Text file that shows the failure, such as a stack trace; - reads the standard input.",
)
@click.option("--replace", is_flag=True, help="Replace FILE if it exists.")
@with_broker
def pack(
    broker: BlockingClient, output: Output, file: Path, test: str, failure_file: str | None, replace: bool
) -> None:
    """Pack the broker's state and recent events into FILE, which `mocketmq open` shows on any machine.

    FILE has a snapshot with all messages, the newest events and deliveries, and the settings. It contains
    message bodies, but no access keys, tokens or passwords.
    """
    if file.exists() and not replace:
        raise click.UsageError(f"FILE is {str(file)!r}, which exists; allowed: a new file, or --replace")
    failure = "" if failure_file is None else _text_of(failure_file)
    try:
        packed = broker.pack(file, test=test, failure=failure)
    except OSError as error:
        raise Failure(f"{file} cannot be written: {error.strerror or error}", Exit.USAGE) from error
    output.show(packed, f"packed {packed['bytes']} bytes into {file}: mocketmq open {file}")


def _text_of(file: str) -> str:
    try:
        content = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        allowed = f"a readable text file ({error.strerror})"
        raise click.UsageError(f"--failure is {file!r}; allowed: {allowed}") from None
    return content.decode(errors="replace")
