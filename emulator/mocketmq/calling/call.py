"""What requests to a cluster have in common, whatever their protocol: time limit, account, errors, TLS."""

import ssl
from pathlib import Path
from typing import Final, NamedTuple

from mocketmq.errors import EmulatorError

CALL_S: Final = 10.0
"""Real seconds that a request may take, beside what it asks the cluster to wait."""


class ClusterError(EmulatorError):
    """The cluster cannot be used."""


class NoAnswerError(ClusterError):
    """An address cannot be reached, or does not answer."""


class Account(NamedTuple):
    """An access key with its secret, by which requests are signed; Aliyun's temporary ones have a token."""

    access_key: str
    secret: str
    security_token: str = ""


def tls_context(ca: Path | None, *, trusts_anybody: bool, checks_host: bool) -> ssl.SSLContext:
    """Trusts certificates of the authorities in the file ``ca``, without one of those that the system knows.

    Raises ClusterError if the file cannot be used.
    """
    try:
        context = ssl.create_default_context(cafile=ca)
    except OSError as error:
        raise ClusterError(
            f"--tls-ca is {str(ca)!r}; allowed: a PEM file with certificates ({error})"
        ) from None
    context.check_hostname = checks_host and not trusts_anybody
    if trusts_anybody:
        context.verify_mode = ssl.CERT_NONE
    return context


def reason_of(error: BaseException) -> str:
    """Why a connection could not be opened, and what helps."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"its certificate is not trusted ({error.verify_message}): name who signed it with --tls-ca FILE,"
            " or trust any with --tls-insecure"
        )
    if isinstance(error, ssl.SSLError):
        return f"it does not speak TLS ({error.reason or error})"
    return str(error) or type(error).__name__
