"""Batches: golden bytes, truncation at any byte, and refusals."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mocketmq.errors import IllegalMessageError
from mocketmq.remoting.wire.batch import BatchEntry, decode_batch, encode_batch

FIRST = (
    b"\x00\x00\x00\x22\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x05"  # length 34, two empty fields, flag
    b"\x00\x00\x00\x05hello"
    b"\x00\x07TAGS\x01\xc3\xbc"
)
SECOND = b"\x00\x00\x00\x16" + bytes(16) + b"\x00\x00"
"""A message with neither body nor properties."""
ENTRIES = {FIRST: BatchEntry(5, b"hello", "TAGS\x01ü"), SECOND: BatchEntry(0, b"", "")}


def entry(flag: int, body: bytes, properties: bytes) -> bytes:
    size = 22 + len(body) + len(properties)
    head = struct.pack(">iiiii", size, 0, 0, flag, len(body))
    return head + body + struct.pack(">h", len(properties)) + properties


@pytest.mark.parametrize("pieces", [[FIRST], [SECOND], [FIRST, SECOND], [SECOND, FIRST, FIRST]])
def test_consecutive_messages_are_read(pieces: list[bytes]) -> None:
    assert decode_batch(b"".join(pieces)) == [ENTRIES[piece] for piece in pieces]
    assert encode_batch(ENTRIES[piece] for piece in pieces) == b"".join(pieces)


@pytest.mark.parametrize("piece", [FIRST, SECOND])
def test_a_truncated_batch_is_refused(piece: bytes) -> None:
    for length in range(1, len(piece)):
        with pytest.raises(IllegalMessageError, match="the batch "):
            decode_batch(FIRST + piece[:length])


def test_magic_code_and_checksum_are_ignored() -> None:
    assert decode_batch(FIRST[:4] + b"\xda\xa3\x20\xa7\xff\xff\xff\xff" + FIRST[12:]) == [ENTRIES[FIRST]]


def test_invalid_utf8_is_read() -> None:
    assert decode_batch(entry(0, b"x", b"a\x01\xff"))[0].properties == "a\x01\ufffd"


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b"", "the batch contains no message"),
        (b"hello", "the batch ends in the middle of a message"),
        (FIRST + SECOND[:21], "the batch ends in the middle of a message"),
        (FIRST[:-1], "the batch contains a field of 7 bytes, but only 6 are left"),
        (
            FIRST[:16] + b"\xff\xff\xff\xff" + FIRST[20:],
            "the batch contains a field of -1 bytes, but only 14 are left",
        ),
        (
            FIRST[:16] + b"\x7f\xff\xff\xff" + FIRST[20:],
            "the batch contains a field of 2147483647 bytes, but only 14 are left",
        ),
        (
            FIRST[:25] + b"\xff\xff" + FIRST[27:],
            "the batch contains a field of -1 bytes, but only 7 are left",
        ),
        (
            SECOND + b"\x00\x00\x00\x21" + FIRST[4:],
            "the batch contains a message that declares 33 bytes but is 34 bytes long",
        ),
        (
            b"\xff\xff\xff\xff" + FIRST[4:],
            "the batch contains a message that declares -1 bytes but is 34 bytes long",
        ),
    ],
)
def test_invalid_batches_are_refused(body: bytes, sentence: str) -> None:
    with pytest.raises(IllegalMessageError) as refused:
        decode_batch(body)
    assert str(refused.value) == sentence
    assert refused.value.field == "body"


entries = st.builds(
    BatchEntry,
    flag=st.integers(-(2**31), 2**31 - 1),
    body=st.binary(max_size=60),
    properties=st.text(st.characters(exclude_categories=["Cs"]), max_size=60),
)


@given(st.lists(entries, min_size=1, max_size=6))
def test_batches_survive_a_round_trip(written: list[BatchEntry]) -> None:
    body = b"".join(entry(flag, body, properties.encode()) for flag, body, properties in written)
    assert decode_batch(body) == written
