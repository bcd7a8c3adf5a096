"""The TLS certificate, which is self-signed unless the settings name one.

The self-signed certificate is created for the first client that uses TLS, and kept in the data directory, so
that clients still trust it after a restart.
"""

import asyncio
import socket
import ssl
import tempfile
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mocketmq.clock import US_PER_S, wall_us
from mocketmq.errors import SettingError
from mocketmq.hosts import split_address
from mocketmq.settings import Settings
from mocketmq.store.database import MEMORY

if TYPE_CHECKING:
    from cryptography.x509 import GeneralName

FOLDER: Final = "tls"
CERTIFICATE: Final = "cert.pem"
KEY: Final = "key.pem"

_LASTS: Final = timedelta(days=3_650)
_BEFORE: Final = timedelta(days=1)
"""How long before its creation the certificate becomes valid, for clients with slow clocks."""


class Certificate:
    """A certificate from files, or a self-signed one for the hosts ``names``, kept in ``directory``."""

    def __init__(self, directory: Path | None, names: list[str]) -> None:
        self._directory = directory
        self._names = names
        self._context: ssl.SSLContext | None = None
        self._making = asyncio.Lock()

    def load(self, certificate: str, key: str | None) -> None:
        """Use this certificate. ``key`` is None if it is in the same file. Raises SettingError."""
        try:
            self._context = _context(Path(certificate), Path(key or certificate))
        except (OSError, ValueError) as error:
            allowed = (
                f"a PEM file with a certificate, and its key without a password in {key or 'the same file'}"
            )
            raise SettingError("tls_cert", certificate, f"{allowed} ({error})") from None

    async def context(self) -> ssl.SSLContext:
        """The TLS context for connections. Raises OSError if a certificate cannot be created."""
        async with self._making:
            if self._context is None:
                self._context = await asyncio.to_thread(self._own)
            return self._context

    def _own(self) -> ssl.SSLContext:
        if self._directory is None:
            with tempfile.TemporaryDirectory(prefix="mocketmq-tls-") as scratch:
                return self._made(Path(scratch) / FOLDER)
        folder = self._directory / FOLDER
        try:
            return _context(folder / CERTIFICATE, folder / KEY)
        except FileNotFoundError:
            return self._made(folder)

    def _made(self, folder: Path) -> ssl.SSLContext:
        """Create the certificate and key files atomically."""
        certificate, key = _self_signed(self._names)
        with tempfile.TemporaryDirectory(prefix=f".{FOLDER}-", dir=folder.parent) as scratch:
            new = Path(scratch) / FOLDER
            new.mkdir(mode=0o700)
            (new / CERTIFICATE).write_bytes(certificate)
            (new / KEY).touch(mode=0o600)
            (new / KEY).write_bytes(key)
            new.rename(folder)
        return _context(folder / CERTIFICATE, folder / KEY)


def certificate_of(settings: Settings) -> Certificate:
    """The certificate that the settings select. Raises SettingError."""
    names = ["localhost", "127.0.0.1", "::1", socket.gethostname(), settings.host]
    advertised = (settings.advertise, *(each.advertise for each in settings.declared_brokers))
    names += [split_address(each, 0)[0] for each in advertised if each is not None]
    directory = None if settings.data == MEMORY else Path(settings.data)
    certificate = Certificate(directory, [name for name in dict.fromkeys(names) if name.isascii()])
    if settings.tls_cert is not None:
        certificate.load(settings.tls_cert, settings.tls_key)
    elif settings.tls_key is not None:
        raise SettingError("tls_key", settings.tls_key, "only with tls_cert")
    return certificate


def _context(certificate: Path, key: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key, password=lambda: b"")  # never prompt at the terminal
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.set_alpn_protocols(["h2"])  # gRPC clients require ALPN; remoting clients do not use it
    context.num_tickets = 0  # clients keep their connections and do not resume sessions
    return context


def _self_signed(names: list[str]) -> tuple[bytes, bytes]:
    """Create a certificate and its key, in PEM format."""
    from cryptography import x509  # noqa: PLC0415 - most starts do not need it
    from cryptography.hazmat.primitives import hashes, serialization  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415

    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "mocketmq")])
    now = datetime.fromtimestamp(wall_us() // US_PER_S, UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BEFORE)
        .not_valid_after(now + _LASTS)
        .add_extension(x509.SubjectAlternativeName([_name(name) for name in names]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    return certificate.public_bytes(serialization.Encoding.PEM), key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _name(text: str) -> "GeneralName":
    from cryptography import x509  # noqa: PLC0415

    try:
        return x509.IPAddress(ip_address(text))
    except ValueError:
        return x509.DNSName(text)
