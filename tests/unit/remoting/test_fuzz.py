"""Hostile bytes: a reader returns a value or refuses, and uses memory in proportion to its input."""

import struct
import tracemalloc
from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mocketmq.errors import EmulatorError
from mocketmq.message.properties import encode_properties
from mocketmq.remoting.wire import body, fastjson
from mocketmq.remoting.wire.batch import decode_batch
from mocketmq.remoting.wire.codes import FrameError
from mocketmq.remoting.wire.command import Command
from mocketmq.remoting.wire.frame import FrameReader, encode
from mocketmq.remoting.wire.record import decode_properties, decode_records
from tests.support.commands import fields
from tests.support.remoting import READERS
from tests.unit.remoting.corpus import seeds
from tests.unit.remoting.recorded import FILES
from tests.unit.remoting.recorded import frames as recorded

BYTES_FOR_A_BYTE = 150
BYTES_AT_LEAST = 200_000  # the traceback of a compiled function takes 2 kB


def frames(data: bytes) -> None:
    """Reading at once or in pieces gives the same result, which can be written and inspected."""
    whole, pieces = FrameReader(), FrameReader()
    try:
        commands = whole.feed(data)
    except FrameError as error:
        assert len(str(error)) < 300
        before: list[Command] = []
        with pytest.raises(FrameError) as refused:
            for start in range(0, len(data), 3):
                before += pieces.feed(data[start : start + 3])
        before += refused.value.before
        assert list(map(fields, error.before)) == list(map(fields, before))
        return
    assert list(map(fields, commands)) == [
        fields(command)
        for start in range(0, len(data), 3)
        for command in pieces.feed(data[start : start + 3])
    ]
    assert whole.buffered == pieces.buffered <= len(data)
    for command in commands:
        frame = encode(command)
        [again] = FrameReader().feed(frame)
        assert fields(again) == fields(command) | {"frame_bytes": len(frame)}
        if command.code in READERS:
            READERS[command.code].read(command.ext)


def headers(data: bytes) -> None:
    """Read headers in both formats."""
    for form in (0, 1):
        frames(struct.pack(">iI", 4 + len(data), form << 24 | len(data)) + data)


def records(data: bytes) -> None:
    """Read a record, which must not be larger than its bytes."""
    assert sum(len(record.body) for record in decode_records(data)) <= len(data)


def batches(data: bytes) -> None:
    """Read a batch, which must not be larger than its bytes."""
    assert sum(len(entry.body) for entry in decode_batch(data)) <= len(data)


def properties(data: bytes) -> None:
    """Read properties, whose names and values are never empty; written again, they read the same."""
    found = decode_properties(data.decode("utf-8", "replace"))
    assert all(found) and all(found.values())
    assert decode_properties(encode_properties(found)) == found


def json(data: bytes) -> None:
    """Read JSON, also as the body of a request, which looks only into objects."""
    assert fastjson.loads(fastjson.dumps(fastjson.loads(data))) == fastjson.loads(data)
    found = body.object_of(data)
    for name in found:
        for look in (body.whole_in, body.text_in, lambda *where: list(body.objects_in(*where))):
            with suppress(EmulatorError):
                look(found, name)


READERS_OF = {read.__name__: read for read in (frames, headers, records, batches, properties, json)}

SEEDS = {kind: seeds(kind) for kind in READERS_OF}
SEEDS["frames"] += [frame for client in FILES for frame in recorded(client)]

NUMBERS = [
    0,
    1,
    -1,
    127,
    128,
    255,
    2**15 - 1,
    2**16,
    2**24 - 1,
    2**24,
    2**31 - 1,
    -(2**31),
    0xDAA320AB - 2**32,
]


@st.composite
def mutated(draw: st.DrawFn, kind: str) -> bytes:
    """Return a seed with a few changes, or two seeds in a row."""
    seed = st.sampled_from(SEEDS[kind])
    data = bytearray(draw(seed))
    for change in draw(
        st.lists(st.sampled_from(["set", "number", "cut", "put", "again", "more"]), max_size=4)
    ):
        at = draw(st.integers(0, len(data)))
        to = draw(st.integers(at, min(len(data), at + 20)))
        if change == "set":
            data[at:to] = draw(st.binary(max_size=to - at))
        elif change == "number":
            data[at : at + 4] = struct.pack(">i", draw(st.sampled_from(NUMBERS)))
        elif change == "cut":
            del data[at:to]
        elif change == "put":
            data[at:at] = draw(
                st.binary(max_size=8) | st.sampled_from([b'"', b"{", b"[[[[", b"\\u", b"\xff", b"\x01"])
            )
        elif change == "again":
            data[at:at] = data[at:to] * draw(st.sampled_from([1, 2, 50]))
        else:
            data += draw(seed)
    return bytes(data)


def tried(read: Callable[[bytes], None], data: bytes) -> None:
    with suppress(EmulatorError):
        read(data)  # Python's one-time allocations must not count for this message
    tracemalloc.start()
    try:
        with suppress(EmulatorError):
            read(data)
        taken = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert taken < BYTES_AT_LEAST + BYTES_FOR_A_BYTE * len(data)


@pytest.mark.parametrize("kind", READERS_OF)
def test_seeds(kind: str) -> None:
    for seed in SEEDS[kind]:
        tried(READERS_OF[kind], seed)


@pytest.mark.parametrize("kind", READERS_OF)
@given(data=st.data())
def test_changed_seeds(kind: str, data: st.DataObject) -> None:
    tried(READERS_OF[kind], data.draw(mutated(kind)))


@pytest.mark.parametrize("kind", READERS_OF)
@given(data=st.binary(max_size=200))
def test_any_bytes(kind: str, data: bytes) -> None:
    tried(READERS_OF[kind], data)
