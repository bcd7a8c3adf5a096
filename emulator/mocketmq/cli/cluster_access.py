"""Options for access to a real cluster, with an access key and TLS."""

from collections.abc import Callable
from functools import partial, wraps
from pathlib import Path
from typing import Any

import click

from mocketmq.calling.call import ClusterAccess, ClusterError, Credentials, tls_context


def access_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options. The argument ``access`` of the command is :func:`access_of` with their values."""

    @wraps(command)
    def reached(
        *,
        access_key: str | None,
        secret_key: str | None,
        tls: bool,
        tls_ca: Path | None,
        tls_insecure: bool,
        **given: Any,
    ) -> None:
        command(access=partial(access_of, access_key, secret_key, tls, tls_ca, tls_insecure), **given)

    for option in reversed(
        (
            click.option(
                "--access-key", envvar="ROCKETMQ_ACCESS_KEY", help="The access key, for a cluster with ACL."
            ),
            click.option("--secret-key", envvar="ROCKETMQ_SECRET_KEY", help="The secret of the access key."),
            click.option(
                "--tls", is_flag=True, help="Use TLS; trust certificates of the system's authorities."
            ),
            click.option(
                "--tls-ca",
                type=click.Path(dir_okay=False, path_type=Path),
                help="Use TLS; trust certificates signed by the authorities in this file.",
            ),
            click.option("--tls-insecure", is_flag=True, help="Use TLS; trust any certificate."),
        )
    ):
        option(reached)
    return reached


def access_of(
    access_key: str | None,
    secret_key: str | None,
    tls: bool = False,
    tls_ca: Path | None = None,
    tls_insecure: bool = False,
    *,
    checks_host: bool = False,
) -> ClusterAccess:
    """Make the ClusterAccess from the options. Raises click.UsageError."""
    if (access_key is None) is not (secret_key is None):
        raise click.UsageError("give both --access-key and --secret-key, or neither")
    credentials = Credentials(access_key, secret_key) if access_key and secret_key else None
    if not (tls or tls_ca or tls_insecure):
        return ClusterAccess(credentials, None)
    if tls_ca and tls_insecure:
        raise click.UsageError("--tls-ca and --tls-insecure cannot be combined")
    try:
        return ClusterAccess(
            credentials, tls_context(tls_ca, trusts_anybody=tls_insecure, checks_host=checks_host)
        )
    except ClusterError as error:
        raise click.UsageError(str(error)) from error
