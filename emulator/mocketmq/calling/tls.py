"""Whom a client trusts when it speaks TLS, and why a connection fails."""

import ssl
from pathlib import Path

from mocketmq.calling.call import ClusterError


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
