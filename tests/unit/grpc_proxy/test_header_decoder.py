"""Header blocks are decoded as by the `hpack` library, and as in RFC 7541."""

from collections.abc import Sequence

import hpack
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mocketmq.grpc_proxy.client_limits import MAX_HEADER_BYTES
from mocketmq.grpc_proxy.header_decoder import MAX_TABLE_BYTES, Field, HeaderDecoder

REQUEST = [(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "www.example.com")]
BAD_HUFFMAN = b"\x00\x01a\x81\x00"

texts = st.binary(max_size=60)
names = st.sampled_from([b"te", b":path", b"x-mq-date-time", b"user-agent", b"grpc-timeout", b"long" * 300])
headers = st.lists(st.tuples(names, texts, st.booleans()), max_size=8)


def decoder() -> HeaderDecoder:
    return HeaderDecoder(MAX_HEADER_BYTES)


def outcome(decode: HeaderDecoder | hpack.Decoder, block: bytes) -> Sequence[Field] | str:
    """Return the fields, or the kind of error."""
    try:
        if isinstance(decode, HeaderDecoder):
            return decode.decode(block)
        return [
            (bytes(name).decode("latin-1"), bytes(value).decode("latin-1"))
            for name, value in decode.decode(block, raw=True)
        ]
    except hpack.OversizedHeaderListError:
        return "too large"
    except hpack.HPACKError:
        return "refused"


@pytest.mark.parametrize(
    "blocks",
    [
        # Appendix C.3, without Huffman code, and C.4, with it
        ["828684410f7777772e6578616d706c652e636f6d", "828684be58086e6f2d6361636865"],
        ["828684418cf1e3c2e5f23a6ba0ab90f4ff", "828684be5886a8eb10649cbf"],
    ],
)
def test_examples_of_the_standard(blocks: list[str]) -> None:
    first, second = map(bytes.fromhex, blocks)
    decode = decoder().decode
    assert decode(first) == REQUEST
    assert decode(second) == [*REQUEST, ("cache-control", "no-cache")]


@given(st.lists(st.tuples(st.sampled_from([None, 0, 60, 500, MAX_TABLE_BYTES]), headers), max_size=6))
def test_blocks_of_one_connection_are_decoded_as_by_the_library(
    requests: list[tuple[int | None, list[tuple[bytes, bytes, bool]]]],
) -> None:
    encoder, library, own = hpack.Encoder(), hpack.Decoder(MAX_HEADER_BYTES), decoder()
    for size, fields in requests:
        if size is not None:
            encoder.header_table_size = size
        block = encoder.encode(
            [
                hpack.NeverIndexedHeaderTuple(name, text) if secret else (name, text)
                for name, text, secret in fields
            ]
        )
        expected = [(name.decode("latin-1"), text.decode("latin-1")) for name, text, _ in fields]
        assert outcome(own, block) == outcome(library, block) == expected


@given(st.lists(st.binary(min_size=1, max_size=24), min_size=1, max_size=3))
@example([b"\x80"])  # entry 0
@example([b"\xbe"])  # an entry of the empty dynamic table
@example([b"\x82\x3f\xe1\x1f"])  # a dynamic table size update after a field
@example([b"\x3f\xe2\x1f"])  # a table of more than 4,096 bytes
@example([b"\x7f\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"])
@example([BAD_HUFFMAN])
def test_any_bytes_are_refused_or_decoded_as_by_the_library(blocks: list[bytes]) -> None:
    library, own = hpack.Decoder(MAX_HEADER_BYTES), decoder()
    for block in blocks:
        found = outcome(own, block)
        assert found == outcome(library, block)
        if isinstance(found, str):
            return  # the connection is closed


@pytest.mark.parametrize("end", range(1, 20))
def test_cut_block_is_refused(end: int) -> None:
    block = bytes.fromhex("828684410f7777772e6578616d706c652e636f6d")[:end]
    expected: Sequence[Field] | str = REQUEST[:end] if end <= 3 else "refused"
    assert outcome(decoder(), block) == expected


def test_headers_that_decompress_to_too_many_bytes_are_refused() -> None:
    name, value = b"x" * 100, b"y" * 1_900
    once = b"\x40\x64" + name + b"\x7f\xed\x0d" + value
    found = outcome(decoder(), once + b"\xbe" * 7)
    assert isinstance(found, Sequence)
    assert len(found) == 8
    assert outcome(decoder(), once + b"\xbe" * 8) == "too large"


def test_integer_that_never_ends_is_refused() -> None:
    assert outcome(decoder(), b"\xff" + b"\x80" * 100) == "refused"
