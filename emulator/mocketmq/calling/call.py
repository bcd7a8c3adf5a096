"""Time limits of requests, credentials, errors and TLS, for clusters of any protocol."""

import ssl
from pathlib import Path
from typing import Final, NamedTuple

from mocketmq.errors import EmulatorError

CALL_S: Final = 10.0
"""Time limit of a request in real seconds, in addition to the waiting time that it requests."""


class ClusterError(EmulatorError):
    """The cluster cannot be used."""


class NoAnswerError(ClusterError):
    """An address cannot be reached, or does not answer."""


class Credentials(NamedTuple):
    """An access key and the secret that signs requests; Aliyun's temporary keys also have a token."""

    access_key: str
    secret: str
    security_token: str = ""


class ClusterAccess(NamedTuple):
    """How a client reaches a cluster: credentials, TLS settings and the time limit of a request."""

    credentials: Credentials | None = None
    tls: ssl.SSLContext | None = None  # with the trusted certificates; None without TLS
    call_s: float = CALL_S


OPEN_ACCESS: Final = ClusterAccess()
"""Access to a cluster without credentials and TLS."""


def tls_context(ca: Path | None, *, trusts_anybody: bool, checks_host: bool) -> ssl.SSLContext:
    """Make a context that trusts the certificate authorities in the file ``ca``, by default the system's.

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
    """Explain why a connection could not be opened, with advice."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"its certificate is not trusted ({error.verify_message}): name its authority with --tls-ca FILE,"
            " or trust any certificate with --tls-insecure"
        )
    if isinstance(error, ssl.SSLError):
        return f"it does not speak TLS ({error.reason or error})"
    return str(error) or type(error).__name__
