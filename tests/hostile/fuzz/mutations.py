"""Changes to bytes that readers of lengths, numbers and text get wrong."""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Final

_INTEGERS: Final = (0, 1, 2, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF)
_NUMBERS: Final = (
    b"-1",
    b"0",
    b"9223372036854775807",
    b"9223372036854775808",
    b"1e400",
    b"NaN",
    b"0x10",
    b"",
)
_PIECES: Final = (
    *(b'"', b"'", b"\\", b"{", b"}", b"[" * 2_000, b"]", b"<", b">", b"&", b"%00", b"%", b"\0", b"\r\n"),
    *(b"\x01", b"\x02", b"\xff\xfe", b"\xed\xa0\x80", "٣".encode(), b"../", b"null", b"true", b"[]", b"{}"),
)
_MOST_BYTES: Final = 1 << 20


def _flip(rng: Random, data: bytearray, _: Sequence[bytes]) -> None:
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def _integer(rng: Random, data: bytearray, _: Sequence[bytes]) -> None:
    size = rng.choice((1, 2, 4, 8))
    at = rng.randrange(len(data))
    data[at : at + size] = (rng.choice(_INTEGERS) % (1 << 8 * size)).to_bytes(
        size, rng.choice(("big", "little"))
    )


def _remove(rng: Random, data: bytearray, _: Sequence[bytes]) -> None:
    at = rng.randrange(len(data))
    del data[at : at + rng.choice((1, 2, 4, 16, 256))]


def _repeat(rng: Random, data: bytearray, _: Sequence[bytes]) -> None:
    at = rng.randrange(len(data))
    piece = data[at : at + rng.choice((1, 4, 64, 1_024))]
    if len(data) < _MOST_BYTES:
        data[at:at] = piece * rng.choice((1, 2, 300))


def _insert(rng: Random, data: bytearray, _: Sequence[bytes]) -> None:
    at = rng.randrange(len(data))
    data[at:at] = rng.choice(_PIECES)


def _number(rng: Random, data: bytearray, _: Sequence[bytes]) -> None:
    """Replace a decimal number."""
    digits = [at for at, byte in enumerate(data) if 0x30 <= byte <= 0x39]
    if digits:
        start = end = rng.choice(digits)
        while start and 0x30 <= data[start - 1] <= 0x39:
            start -= 1
        while end < len(data) and 0x30 <= data[end] <= 0x39:
            end += 1
        data[start:end] = rng.choice(_NUMBERS)


def _cut(rng: Random, data: bytearray, _: Sequence[bytes]) -> None:
    del data[rng.randrange(len(data)) :]


def _splice(rng: Random, data: bytearray, others: Sequence[bytes]) -> None:
    """Continue with the rest of another seed."""
    other = rng.choice(others)
    del data[rng.randrange(len(data)) :]
    data += other[rng.randrange(len(other) + 1) :]


_Mutation = Callable[[Random, bytearray, Sequence[bytes]], None]
_MUTATIONS: Final[tuple[_Mutation, ...]] = (
    _flip,
    _integer,
    _remove,
    _repeat,
    _insert,
    _number,
    _cut,
    _splice,
)


_VALUES: Final[tuple[Any, ...]] = (
    *(None, True, False, 0, -1, 1.5, 1 << 31, -(1 << 31), 1 << 63, 1 << 64, 1e308, "", "x" * 70_000, "\0"),
    *("-1", "0", "null", "true", "2147483648", "-9223372036854775809", "1e9", " 7 ", "٣", "%RETRY%", "a b"),
    *("%RETRY%billing", "SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC", "TBW102", "*", "a || b", "../x"),
    *(
        "a = 1 AND",
        "__STARTDELIVERTIME\x01\x02",
        "DELAY\x0199\x02",
        "\ud800",
        "\u202e",
        [],
        {},
        [[]],
        {"": ""},
    ),
)


def mutated_json(rng: Random, value: Any) -> Any:
    """The JSON value with one of its leaves replaced, removed or changed."""
    if isinstance(value, dict) and value:
        name = rng.choice([*value])
        if rng.random() < 0.1:
            return {key: one for key, one in value.items() if key != name}
        return value | {name: mutated_json(rng, value[name])}
    if isinstance(value, list) and value:
        at = rng.randrange(len(value))
        return [*value[:at], mutated_json(rng, value[at]), *value[at + 1 :]] * rng.choice((1, 1, 1, 40))
    if isinstance(value, str) and value and rng.random() < 0.4:
        return mutated(rng, [value.encode(errors="replace")]).decode(errors="replace")
    return rng.choice(_VALUES)


def mutated(rng: Random, seeds: Sequence[bytes]) -> bytes:
    """One of the seeds, changed in one to five places, or rarely unchanged."""
    data = bytearray(rng.choice(seeds))
    for _ in range(rng.choice((0, 1, 1, 1, 2, 2, 3, 5))):
        if data:
            rng.choice(_MUTATIONS)(rng, data, seeds)
    return bytes(data)
