"""Message bodies compressed by client libraries."""

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
def test_unknown_compression_is_named(sys_flag: int, name: str) -> None:
    assert body_of(message(PACKED, sys_flag), 1_000) == (PACKED, name)


@pytest.mark.parametrize("sys_flag", [0, 0x300, 0x100, 2])
def test_only_bodies_flagged_as_compressed_are_decompressed(sys_flag: int) -> None:
    assert body_of(message(PACKED, sys_flag), 1_000) == Body(PACKED, None)


@pytest.mark.parametrize("body", [b"hello", PACKED[:-1], PACKED[:5], b"", PLAIN, PACKED[:-1] + b"x"])
def test_corrupt_bodies_are_left_unchanged(body: bytes) -> None:
    assert body_of(message(body, 1), 1_000) == (body, "zlib")


def test_bytes_after_the_end_are_ignored_as_in_java() -> None:
    assert body_of(message(PACKED + b"more", 1), 1_000) == Body(PLAIN, None)


@pytest.mark.parametrize("content", [PLAIN, b"", b"x"])
def test_the_limit_applies_to_the_decompressed_size(content: bytes) -> None:
    packed = zlib.compress(content)
    assert body_of(message(packed, 1), len(content)) == Body(content, None)
    if content:
        assert body_of(message(packed, 1), len(content) - 1) == (packed, "zlib")


def test_a_zip_bomb_is_not_decompressed() -> None:
    bomb = zlib.compress(bytes(200 << 20), 9)
    assert len(bomb) < 300_000
    assert body_of(message(bomb, 1), 4 << 20) == (bomb, "zlib")
