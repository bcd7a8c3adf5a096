"""``mocketmq healthcheck``: for containers, so it imports nothing that takes long."""

import http.client
from urllib.parse import urlsplit

import click

from mocketmq import DEFAULT_URL
from mocketmq.cli.exit_codes import Exit, Failure

_PATIENCE_S = 2.0


@click.command()
@click.option(
    "--url", envvar="MOCKETMQ_URL", default=DEFAULT_URL, show_default=True, help="The broker's address."
)
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
def healthcheck(url: str, as_json: bool) -> None:
    """Check that the broker is ready: exit code 0 if it is, 3 if not. It needs no token."""
    status, answer = _get_readyz(url)
    if as_json:
        click.echo(answer)
    if status != http.HTTPStatus.OK:
        raise Failure(f"the broker at {url} is not ready: {answer[:200]}", Exit.NOT_READY)
    if not as_json:
        click.echo("ready")


def _get_readyz(url: str) -> tuple[int, str]:
    address = urlsplit(url)
    kind = {"http": http.client.HTTPConnection, "https": http.client.HTTPSConnection}.get(address.scheme)
    if kind is None or not address.hostname:
        raise click.BadParameter(f"{url!r} is not an address such as {DEFAULT_URL}", param_hint="--url")
    connection = kind(address.hostname, address.port, timeout=_PATIENCE_S)
    try:
        connection.request("GET", f"{address.path.rstrip('/')}/readyz")
        response = connection.getresponse()
        return response.status, response.read().decode(errors="replace")
    except (OSError, http.client.HTTPException) as error:
        raise Failure(f"no broker answers at {url}: {error}", Exit.NOT_READY) from error
    finally:
        connection.close()
