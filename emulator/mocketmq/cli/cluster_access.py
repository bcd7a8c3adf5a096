"""How a command gets access to a real cluster: the options, and what they come to."""

import ssl
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import click

from mocketmq.calling.call import Account, ClusterError, tls_context


class Access(NamedTuple):
    """Who we are, and whom we trust; None without TLS."""

    account: Account | None
    tls: ssl.SSLContext | None


def access_options(command: Callable[..., None]) -> Callable[..., None]:
    """The options, which are the arguments of :func:`access_of`."""
    for option in reversed(
        (
            click.option("--access-key", envvar="ROCKETMQ_ACCESS_KEY", help="For a cluster with ACL."),
            click.option("--secret-key", envvar="ROCKETMQ_SECRET_KEY", help="The secret of the access key."),
            click.option("--tls", is_flag=True, help="Speak TLS, and trust whom the system trusts."),
            click.option(
                "--tls-ca",
                type=click.Path(dir_okay=False, path_type=Path),
                help="Speak TLS, and trust certificates signed by those in this file.",
            ),
            click.option("--tls-insecure", is_flag=True, help="Speak TLS, and trust any certificate."),
        )
    ):
        command = option(command)
    return command


def access_of(
    access_key: str | None,
    secret_key: str | None,
    tls: bool,
    tls_ca: Path | None,
    tls_insecure: bool,
    *,
    checks_host: bool,
) -> Access:
    """What was given. Raises click.UsageError."""
    if (access_key is None) is not (secret_key is None):
        raise click.UsageError("--access-key and --secret-key are needed together")
    account = Account(access_key, secret_key) if access_key and secret_key else None
    if not (tls or tls_ca or tls_insecure):
        return Access(account, None)
    if tls_ca and tls_insecure:
        raise click.UsageError("--tls-ca and --tls-insecure exclude each other")
    try:
        return Access(account, tls_context(tls_ca, trusts_anybody=tls_insecure, checks_host=checks_host))
    except ClusterError as error:
        raise click.UsageError(str(error)) from error
