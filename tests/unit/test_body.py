"""Bodies that a client library compressed."""

import zlib

import pytest

from mocketmq.message.body import Body, body_of
from mocketmq.message.message import StoredMessage

PLAIN = b"hello, hello, hello" * 10
PACKED = zlib.compress(PLAIN)


def message(body: bytes, sys_flag: int) -> StoredMessage:
    return StoredMessage(0, 1, 0, 0, 0, "h:1", "h:2", 0, sys_flag, body, "", 0, 0, "U", None, None, None)


@pytest.mark.parametrize("sys_flag", [0x001, 0x301, 0x309])
def test_zlib_is_unpacked(sys_flag: int) -> None:
    assert body_of(message(PACKED, sys_flag), 1_000) == Body(PLAIN, None)


@pytest.mark.parametrize(
    ("sys_flag", "name"),
    [(0x101, "lz4"), (0x201, "zstd"), (0x401, "unknown"), (0x701, "unknown")],
)
def test_what_cannot_be_unpacked_is_named(sys_flag: int, name: str) -> None:
    assert body_of(message(PACKED, sys_flag), 1_000) == (PACKED, name)


@pytest.mark.parametrize("sys_flag", [0, 0x300, 0x100, 2])
def test_only_what_is_said_to_be_compressed_is_looked_at(sys_flag: int) -> None:
    assert body_of(message(PACKED, sys_flag), 1_000) == Body(PACKED, None)


@pytest.mark.parametrize("body", [b"hello", PACKED[:-1], PACKED[:5], b"", PLAIN, PACKED[:-1] + b"x"])
def test_what_is_broken_is_left_as_it_is(body: bytes) -> None:
    assert body_of(message(body, 1), 1_000) == (body, "zlib")


def test_what_stands_behind_the_end_is_ignored_as_in_java() -> None:
    assert body_of(message(PACKED + b"more", 1), 1_000) == Body(PLAIN, None)


@pytest.mark.parametrize("content", [PLAIN, b"", b"x"])
def test_the_limit_is_what_may_come_out(content: bytes) -> None:
    packed = zlib.compress(content)
    assert body_of(message(packed, 1), len(content)) == Body(content, None)
    if content:
        assert body_of(message(packed, 1), len(content) - 1) == (packed, "zlib")


def test_a_bomb_is_not_unpacked() -> None:
    bomb = zlib.compress(bytes(200 << 20), 9)
    assert len(bomb) < 300_000
    assert body_of(message(bomb, 1), 4 << 20) == (bomb, "zlib")
