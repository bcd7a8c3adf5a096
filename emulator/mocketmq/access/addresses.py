"""White lists, which are patterns for addresses of clients that need no access key.

Source: RemoteAddressStrategyFactory.java, 4.9.8.
"""

import re
from collections.abc import Callable, Sequence
from functools import partial
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final, NamedTuple

Addresses = Callable[[str], bool]
"""Returns whether a client's address is in the white list."""

_ALL: Final = ("*", "*.*.*.*", "*:*:*:*:*:*:*:*")
_EXAMPLES: Final = (
    "such as *, 192.168.0.7, 192.168.0.*, 192.168.1-9.*, 192.168.0.{1,2}, 10.0.0.1,10.0.0.2 or 2::ac5:*"
)


class _Kind(NamedTuple):
    """The syntax of one kind of address."""

    separator: str
    parts: int
    base: int
    limit: int


_V4: Final = _Kind(".", 4, 10, 0xFF)
_V6: Final = _Kind(":", 8, 16, 0xFFFF)


def parse_addresses(text: str) -> Addresses:
    """Parse one line of a white list; an empty line matches no address.

    Each part of an address may be a number, ``*``, a range, or a list in ``{}``. Raises ValueError.
    """
    text = text.strip()
    if text in _ALL:
        return _anybody
    patterns = [_parse(one.strip(), text) for one in re.split(r",(?![^{]*\})", text)] if text else []
    return partial(_is_like_any, patterns)


Pattern = tuple[_Kind, list[list[range]]]


def _parse(text: str, whole: str) -> Pattern:
    kind = _V6 if ":" in text else _V4
    parts = _expanded(text) if kind is _V6 else text.split(".")
    try:
        if len(parts) != kind.parts:
            raise ValueError(text)
        return kind, [_ranges(part, kind) for part in parts]
    except ValueError:
        raise ValueError(f"{whole!r} is not a list of addresses; allowed: {_EXAMPLES}") from None


def _expanded(text: str) -> Sequence[str]:
    """Split an IPv6 address into its parts, with ``::`` expanded."""
    head, gap, tail = text.partition("::")
    before, after = (side.split(":") if side else [] for side in (head, tail))
    left_out = _V6.parts - len(before) - len(after)
    return [*before, *["0"] * max(left_out, 1), *after] if gap else before


def _ranges(part: str, kind: _Kind) -> list[range]:
    if part == "*":
        return [range(kind.limit + 1)]
    choices = part[1:-1].split(",") if part.startswith("{") and part.endswith("}") else [part]
    return [_range(choice.strip(), kind) for choice in choices]


def _range(text: str, kind: _Kind) -> range:
    if not re.fullmatch("[0-9A-Fa-f]{1,4}(-[0-9A-Fa-f]{1,4})?", text):
        raise ValueError(text)
    low, _, high = text.partition("-")
    first, last = int(low, kind.base), int(high or low, kind.base)
    if not first <= last <= kind.limit:
        raise ValueError(text)
    return range(first, last + 1)


def _anybody(_host: str) -> bool:
    return True


def _is_like_any(patterns: Sequence[Pattern], host: str) -> bool:
    if not patterns:
        return False
    try:
        kind, parts = _parts_of(host)
    except ValueError:
        return False  # a host name, or the path of a socket
    return any(
        kind is of
        and all(any(part in one for one in ranges) for part, ranges in zip(parts, wanted, strict=True))
        for of, wanted in patterns
    )


def _parts_of(host: str) -> tuple[_Kind, Sequence[int]]:
    address: IPv4Address | IPv6Address = ip_address(host.partition("%")[0])
    if isinstance(address, IPv6Address):
        address = address.ipv4_mapped or address  # an IPv4 client on a dual-stack listener
    packed = address.packed
    if len(packed) == _V4.parts:
        return _V4, packed
    return _V6, [int.from_bytes(packed[at : at + 2]) for at in range(0, len(packed), 2)]
