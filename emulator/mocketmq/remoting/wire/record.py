"""Writes and reads records, the form in which clients receive messages (docs/protocol/remoting.md §3)."""

import ipaddress
import struct
import zlib
from collections.abc import Iterable
from functools import lru_cache
from typing import Final, NamedTuple

from mocketmq.codec import read_properties
from mocketmq.errors import IllegalMessageError
from mocketmq.message.message import StoredMessage
from mocketmq.message.names import REGION
from mocketmq.message.properties import MAX_PROPERTIES_BYTES
from mocketmq.rocketmq_versions import V5_0_0

_REGION: Final = f"MSG_REGION\x01{REGION}\x02TRACE_ON\x01true\x02".encode()
"""Properties that brokers of 5.x add to all messages (AbstractSendMessageProcessor.java, 5.3.3)."""

_V1: Final = 0xDAA320A7
_V2: Final = 0xDAA320AB  # of 5.x, with two bytes for the length of the topic
_BORN_IPV6: Final = 16
_STORE_IPV6: Final = 32

_HEAD: Final = struct.Struct(">IIIiiqqiq8sq8siqi")  # all fields before the body, with IPv4 hosts
_BEFORE_HOSTS: Final = struct.Struct(">IIIiiqqiq")
_AFTER_HOSTS: Final = struct.Struct(">iqi")
_LONG: Final = struct.Struct(">q")
_INT: Final = struct.Struct(">i")
_SHORT: Final = struct.Struct(">h")
_BYTE: Final = struct.Struct(">b")
_LOOPBACK: Final = bytes((127, 0, 0, 1))


class WireRecord(NamedTuple):
    """A message as a client reads it. Hosts are ``address:port``."""

    topic: str
    queue_id: int
    queue_offset: int
    log_offset: int
    body: bytes
    properties: str
    flag: int
    sys_flag: int
    born_ms: int
    born_host: str
    store_ms: int
    store_host: str
    reconsume_times: int
    prepared_offset: int
    body_crc: int


def encode_record(
    message: StoredMessage, topic: str, queue_id: int, store_host: str, version: int = 0
) -> bytes:
    """Encode a message as a record; see ``encode_records``."""
    return encode_records((message,), topic, queue_id, store_host, version)


def encode_records(
    messages: Iterable[StoredMessage], topic: str, queue_id: int, store_host: str, version: int = 0
) -> bytes:
    """Encode messages as records, with IPv4 hosts, because many clients cannot read IPv6.

    ``version`` is the consumer's. Consumers of 5.x also get the region, because they do not trace messages
    without it. Older consumers get the bytes that 4.9.8 would store, with no separator at the end of the
    properties.
    """
    name, packed_store_host = topic.encode(), _host(store_host)
    magic, length = (_V1, _BYTE) if len(name) < 128 else (_V2, _SHORT)
    packed_topic = length.pack(len(name)) + name
    other_bytes = _HEAD.size + len(packed_topic) + _SHORT.size
    parts: list[bytes] = []
    # Unpacked at once, because each look-up by name takes as long as six fields.
    for message in messages:
        log_offset, _, queue_offset, store_us, born_us, born_host, _, flag, sys_flag, body = message[:10]
        text, _, reconsume_times, _, _, _, _, prepared_offset, _, _ = message[10:]
        properties = text.encode()
        if version < V5_0_0:
            properties = properties.removesuffix(b"\x02")
        elif _REGION not in properties:
            properties += _REGION
        if len(properties) > MAX_PROPERTIES_BYTES:
            properties = _fitting(properties)
        head = _HEAD.pack(
            other_bytes + len(body) + len(properties),
            magic,
            zlib.crc32(body) & 0x7FFFFFFF,
            queue_id,
            flag,
            queue_offset,
            log_offset,
            sys_flag & ~(_BORN_IPV6 | _STORE_IPV6),
            born_us // 1_000,
            _host(born_host),
            store_us // 1_000,
            packed_store_host,
            reconsume_times,
            prepared_offset or 0,
            len(body),
        )
        parts += (head, body, packed_topic, _SHORT.pack(len(properties)), properties)
    return b"".join(parts)


def _fitting(properties: bytes) -> bytes:
    """As many whole properties as a record can hold. The broker's own are last, so they are dropped first."""
    return properties[: properties.rfind(b"\x02", 0, MAX_PROPERTIES_BYTES) + 1]


@lru_cache(maxsize=4_096)
def _host(host: str) -> bytes:
    """Address and port as bytes. An address that is not IPv4 becomes 127.0.0.1, a missing port 0."""
    address, _, port = host.rpartition(":")
    try:
        packed = ipaddress.IPv4Address(address).packed
    except ValueError:
        packed = _LOOPBACK
    return packed + _INT.pack(int(port) if port.isdecimal() and len(port) < 6 else 0)


def decode_records(data: bytes) -> list[WireRecord]:
    """Decode records of both versions, with IPv4 or IPv6 hosts. Only tests and tools use this.

    Raises IllegalMessageError.
    """
    records = []
    start = 0
    while start < len(data):
        record, start = _decode(data, start)
        records.append(record)
    return records


def _decode(data: bytes, start: int) -> tuple[WireRecord, int]:
    """The record that begins at ``start``, and the index of its end."""
    try:
        size, magic, crc, queue_id, flag, queue_offset, log_offset, sys_flag, born_ms = (
            _BEFORE_HOSTS.unpack_from(data, start)
        )
        if magic not in (_V1, _V2):
            raise _illegal(f"has magic code {magic:#x}; allowed: {_V1:#x} and {_V2:#x}")
        position = start + _BEFORE_HOSTS.size
        born_host, position = _read_host(data, position, is_ipv6=bool(sys_flag & _BORN_IPV6))
        (store_ms,) = _LONG.unpack_from(data, position)
        store_host, position = _read_host(data, position + _LONG.size, is_ipv6=bool(sys_flag & _STORE_IPV6))
        reconsume_times, prepared_offset, body_length = _AFTER_HOSTS.unpack_from(data, position)
        body, position = _piece(data, position + _AFTER_HOSTS.size, body_length)
        length = _BYTE if magic == _V1 else _SHORT
        (topic_length,) = length.unpack_from(data, position)
        topic, position = _piece(data, position + length.size, topic_length)
        (properties_length,) = _SHORT.unpack_from(data, position)
        properties, end = _piece(data, position + _SHORT.size, properties_length)
    except struct.error:
        raise _illegal("ends in the middle of a field") from None
    if end - start != size:
        raise _illegal(f"declares {size} bytes but is {end - start} bytes long")
    record = WireRecord(
        topic=topic.decode("utf-8", "replace"),
        queue_id=queue_id,
        queue_offset=queue_offset,
        log_offset=log_offset,
        body=body,
        properties=properties.decode("utf-8", "replace"),
        flag=flag,
        sys_flag=sys_flag,
        born_ms=born_ms,
        born_host=born_host,
        store_ms=store_ms,
        store_host=store_host,
        reconsume_times=reconsume_times,
        prepared_offset=prepared_offset,
        body_crc=crc,
    )
    return record, end


def _piece(data: bytes, start: int, length: int) -> tuple[bytes, int]:
    """``length`` bytes that begin at ``start``, and the index of their end."""
    end = start + length
    if not start <= end <= len(data):
        raise _illegal(f"contains a field of {length} bytes, but only {len(data) - start} are left")
    return data[start:end], end


def _read_host(data: bytes, start: int, *, is_ipv6: bool) -> tuple[str, int]:
    """The host that begins at ``start``, and the index of its end."""
    packed, position = _piece(data, start, 16 if is_ipv6 else 4)
    (port,) = _INT.unpack_from(data, position)
    address = ipaddress.ip_address(packed)
    return f"[{address}]:{port}" if is_ipv6 else f"{address}:{port}", position + _INT.size


def _illegal(reason: str) -> IllegalMessageError:
    return IllegalMessageError("record", f"a record {reason}")


def decode_properties(text: str) -> dict[str, str]:
    """Parse the properties in a client's string as MessageDecoder.string2messageProperties does.

    Properties without a name or value are left out. Of properties with the same name, the last one wins.
    """
    properties = read_properties(text)
    if properties is not None:
        return properties
    properties = {}
    for part in text.split("\x02"):
        name, _, value = part.partition("\x01")
        if name and value:
            properties[name] = value
    return properties
