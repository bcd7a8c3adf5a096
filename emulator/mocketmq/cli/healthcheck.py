"""``mocketmq healthcheck``, which checks that a broker is ready."""

import click

from mocketmq import DEFAULT_URL
from mocketmq.cli.connection import ask_broker
from mocketmq.cli.exit_codes import Exit, Failure
from mocketmq.cli.options import examples
from mocketmq.cli.output import Output
from mocketmq.client.answer import BrokerError
from mocketmq.client.blocking import BlockingClient

_PATIENCE_S = 2.0


@click.command(epilog=examples("healthcheck", "healthcheck --url http://broker:9877 --json"))
@click.option(
    "--url", envvar="MOCKETMQ_URL", default=DEFAULT_URL, show_default=True, help="The broker's address."
)
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
def healthcheck(url: str, as_json: bool) -> None:
    """Check that the broker is ready: exit code 0 if it is, 3 if not. It needs no token."""
    ask_broker(url, None, lambda broker: _check(broker, Output(as_json)), answer_s=_PATIENCE_S)


def _check(broker: BlockingClient, output: Output) -> None:
    try:
        output.show(broker.ready(), "ready")
    except BrokerError as error:
        raise Failure(f"the broker at {broker.url} is not ready: {error}", Exit.NOT_READY) from error
