"""Message ids: a client's unique key, and the broker's offset message id.

Sources: MessageClientIDSetter.java and MessageDecoder.java of 4.9.8; docs/protocol/remoting.md §3.3, §3.5.
"""

import hashlib
import itertools
import os
import re
from functools import cache
from typing import Final

from mocketmq.codec import write_message_id

Identity = tuple[int, int]
"""Identity of a message in a delay scheme outside of the store: its number and its unique key's hash."""

_OFFSET_ID: Final = re.compile("[0-9A-Fa-f]{16}[0-7][0-9A-Fa-f]{15}")


_unique_prefix = f"{os.urandom(4).hex()}{os.getpid() & 0xFFFF:04x}".upper()
_unique_counter = itertools.count()


def new_unique_key(now_us: int) -> str:
    """Make a client message id in RocketMQ's format, 32 upper-case hex digits.

    As in RocketMQ, the id is a prefix for host and process, then milliseconds, then a counter.
    """
    number = (now_us // 1_000 & 0xFFFFFFFFFFF) << 36 | next(_unique_counter) & 0xFFFFFFFFF
    return _unique_prefix + format(number, "020X")  # mypyc is slow with formats in f-strings


def offset_message_id(store_host: str, log_offset: int) -> str:
    """Make the broker's message id: address, port and log offset in 32 hex digits."""
    host = _host_digits(store_host)
    return write_message_id(host, log_offset) or f"{host}{log_offset:016X}"


@cache
def _host_digits(store_host: str) -> str:
    address, _, port = store_host.rpartition(":")
    octets = "".join(f"{int(part):02X}" for part in address.split("."))
    return f"{octets}{int(port):08X}"


def log_offset_of(message_id: str) -> int | None:
    """Read the log offset from an offset message id; None for any other id."""
    return int(message_id[16:], 16) if _OFFSET_ID.fullmatch(message_id) else None


def host_of(message_id: str) -> str:
    """Read the ``host:port`` from an offset message id."""
    return f"{'.'.join(map(str, bytes.fromhex(message_id[:8])))}:{int(message_id[8:16], 16)}"


def at_host(message_id: str, store_host: str) -> str:
    """Replace the broker's address in an offset message id; return any other id unchanged."""
    if message_id.startswith(_host_digits(store_host)):  # the usual case
        return message_id
    log_offset = log_offset_of(message_id)
    return message_id if log_offset is None else offset_message_id(store_host, log_offset)


def key_hash(unique_key: str) -> int:
    """Hash the unique key to 63 bits, because SQLite's integers are signed."""
    digest = hashlib.blake2b(unique_key.encode(errors="surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest) >> 1
