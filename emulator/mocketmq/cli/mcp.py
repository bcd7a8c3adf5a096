"""``mocketmq mcp``, which offers tools for the broker to coding agents."""

import click

from mocketmq import DEFAULT_URL
from mocketmq.cli.as_typed import as_typed
from mocketmq.cli.exit_codes import Exit, Failure
from mocketmq.cli.options import examples
from mocketmq.errors import InvalidArgumentError


@click.command(epilog=examples("mcp", "mcp --url http://127.0.0.1:9877"))
@click.option(
    "--url", envvar="MOCKETMQ_URL", default=DEFAULT_URL, show_default=True, help="The broker's address."
)
@click.option("--token", envvar="MOCKETMQ_TOKEN", help="The broker's token, if it requires one.")
def mcp(url: str, token: str | None) -> None:
    """Offer tools for the broker to an agent, over the Model Context Protocol.

    An agent or editor starts this command, and talks to it by its input and output. It needs the extra mcp,
    and ends with its input. The broker may start later.
    """
    try:
        from mocketmq.mcp.server import serve  # noqa: PLC0415 - needs an extra
    except ImportError as error:
        raise Failure(
            "tools for agents need the Python package mcp, which is not installed: install mocketmq with its"
            " extra 'mcp', which the bundle leaves out",
            Exit.USAGE,
        ) from error
    try:
        serve(url, token)
    except InvalidArgumentError as error:
        raise Failure(as_typed(error), Exit.USAGE) from error
