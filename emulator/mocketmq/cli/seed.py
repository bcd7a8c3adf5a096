"""``mocketmq seed``."""

import sys
from pathlib import Path

import click

from mocketmq.cli.connection import with_broker
from mocketmq.cli.options import examples
from mocketmq.cli.output import Output
from mocketmq.client.blocking import BlockingClient
from mocketmq.client.seeds import FORMATS, format_of


@click.command(epilog=examples("seed orders-waiting.toml", "seed orders.csv --json", "seed - --format jsonl"))
@click.argument("file")
@click.option(
    "--format",
    "given_format",
    type=click.Choice(list(FORMATS)),
    help="Format of FILE; by default that of its ending: .toml, .jsonl or .csv.",
)
@with_broker
def seed(broker: BlockingClient, output: Output, file: str, given_format: str | None) -> None:
    """Store the messages of FILE, with their past: when they were sent, and which groups have consumed them.

    All are stored, or none. If FILE is -, it is read from the standard input. docs/seeds.md describes the
    fields.
    """
    try:
        content = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        text = content.decode()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise click.UsageError(f"FILE is {file!r}; allowed: a readable file in UTF-8 ({reason})") from None
    name = "standard input" if file == "-" else file
    seeded = broker.seed_text(text, given_format or format_of(name), name=name)
    count, pending = len(seeded["message_ids"]), seeded["pending"]
    told = f"stored {count} messages, of which {pending} wait for their due time"
    copies = f"{seeded['retries']} retries and {seeded['dead_letters']} dead letters"
    output.show(seeded, f"{told}; {copies}")
