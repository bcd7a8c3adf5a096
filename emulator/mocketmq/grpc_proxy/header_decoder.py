"""Decodes the header blocks of one connection (HPACK, RFC 7541).

The `hpack` library formats a log record for each integer and each field that it decodes, which takes longer
than the decoding. Only its static table and its Huffman code are used here.
"""

from collections import deque
from typing import Final

from hpack import HPACKDecodingError, OversizedHeaderListError
from hpack.huffman_table import decode_huffman
from hpack.table import HeaderTable

MAX_TABLE_BYTES: Final = 4_096
"""Maximum size of the dynamic table, the default of SETTINGS_HEADER_TABLE_SIZE."""

_ENTRY_BYTES: Final = 32
"""Bytes added to an entry's text in the sizes of the table and of a list of headers (RFC 7541, 4.1)."""
_CONTINUED: Final = 4
"""Maximum number of bytes of an integer after its prefix, enough for 2^28."""
_HUFFMAN: Final = 0x80

Field = tuple[str, str]
"""Name and value, each byte as one character."""

_STATIC: Final[list[Field]] = [
    (name.decode("latin-1"), value.decode("latin-1")) for name, value in HeaderTable.STATIC_TABLE
]


class HeaderDecoder:
    """The decoder of a connection, with the dynamic table that the client's blocks build up.

    The headers of one block may have up to ``max_bytes``.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._table: deque[Field] = deque()  # newest entry first
        self._table_bytes = 0
        self._max_table_bytes = MAX_TABLE_BYTES

    def decode(self, block: bytes) -> list[Field]:
        """Decode a complete block. Raises HPACKError; the decoder is unusable after that."""
        try:
            return self._decode(block)
        except IndexError:
            raise HPACKDecodingError("the block ends in the middle of a field") from None

    def _decode(self, block: bytes) -> list[Field]:
        fields: list[Field] = []
        at, end, room = 0, len(block), self._max_bytes
        while at < end:
            kind = block[at]
            if kind & 0x80:
                number, at = _integer(block, at, 0x7F)
                field = self._entry(number)
            elif kind & 0x60 == 0x20:
                if fields:
                    raise HPACKDecodingError("a dynamic table size update follows a field")
                size, at = _integer(block, at, 0x1F)
                self._resize(size)
                continue
            else:
                is_indexed = kind & 0x40
                number, at = _integer(block, at, 0x3F if is_indexed else 0x0F)
                if number:
                    name = self._entry(number)[0]
                else:
                    name, at = _text(block, at)
                value, at = _text(block, at)
                field = name, value
                if is_indexed:
                    self._add(field)
            room -= _size(field)
            if room < 0:
                raise OversizedHeaderListError(f"the headers are longer than {self._max_bytes} bytes")
            fields.append(field)
        return fields

    def _entry(self, number: int) -> Field:
        """Return the entry with this number, from 1, in the static and then the dynamic table."""
        if 0 < number <= len(_STATIC):
            return _STATIC[number - 1]
        if not 0 < number <= len(_STATIC) + len(self._table):
            raise HPACKDecodingError(f"the header tables contain no entry {number}")
        return self._table[number - len(_STATIC) - 1]

    def _add(self, field: Field) -> None:
        self._table.appendleft(field)
        self._table_bytes += _size(field)
        self._evict()

    def _resize(self, size: int) -> None:
        if size > MAX_TABLE_BYTES:
            raise HPACKDecodingError(f"the dynamic table size is {size}; allowed: up to {MAX_TABLE_BYTES}")
        self._max_table_bytes = size
        self._evict()

    def _evict(self) -> None:
        """Remove the oldest entries until the table fits; even a new entry, if it is too large itself."""
        while self._table_bytes > self._max_table_bytes:
            self._table_bytes -= _size(self._table.pop())


def _size(field: Field) -> int:
    return len(field[0]) + len(field[1]) + _ENTRY_BYTES


def _integer(block: bytes, at: int, mask: int) -> tuple[int, int]:
    """Return the integer whose prefix is at ``at``, and the index of its end (RFC 7541, 5.1)."""
    number = block[at] & mask
    at += 1
    if number < mask:
        return number, at
    for shift in range(0, 7 * _CONTINUED, 7):
        byte = block[at]
        at += 1
        number += (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
    raise HPACKDecodingError(f"an integer is longer than {_CONTINUED} bytes after its prefix")


def _text(block: bytes, at: int) -> tuple[str, int]:
    """Return the string that begins at ``at``, and the index of its end (RFC 7541, 5.2)."""
    is_packed = block[at] & _HUFFMAN
    size, at = _integer(block, at, 0x7F)
    end = at + size
    if end > len(block):
        raise IndexError(end)
    text = block[at:end]
    return (decode_huffman(text) if is_packed else text).decode("latin-1"), end
