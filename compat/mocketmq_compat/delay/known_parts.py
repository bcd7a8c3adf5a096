"""Saves a store's knowledge of its files when it closes, so that the next start need not read them.

How it works. A store has parts: files, or directories of files. When it closes, it writes a row for each
part, with the part's stamp and the store's numbers for the part. A stamp is the time of the last change
(``st_ctime``), the size and the inode of a file. The next start reads all stamps, and then only the parts
whose stamp differs. So it does not matter how the last run ended, or what changed a file in the meantime:
kills, restored backups and editors all change stamps, and no tool can set them. After a power failure, a file
may have its stamp but not its last content, so a store of files syncs before it writes its rows.

Some file systems round times to seconds or ticks. Two changes may then have the same stamp, so the next start
does not trust a stamp from the last two seconds before the rows were written, and reads these parts.

The file begins with a line of text, ``mocketmq-known 3 <kind> <byte order> <numbers of a part> <parts>
<items> <CRC-32 of the rest>``. Numbers of eight bytes follow: the time before which stamps are trusted, the
rows, and a list of items, such as the entries of all files. A damaged file, or a file of another version or
byte order, is ignored.
"""

import contextlib
import os
import sys
import zlib
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

KNOWN: Final = ".known"
"""Name of the file in a scheme's folder."""
SETTLING_NS: Final = 2_000_000_000
"""Minimum age in nanoseconds of a trusted stamp: the coarsest time resolution of common file systems."""
_MAGIC: Final = b"mocketmq-known 3"
_NUMBER_BYTES: Final = 8
_LONGEST_LINE: Final = 200
_GREATEST: Final = (1 << 63) - 1


class Stamp(NamedTuple):
    """The time of a file's last change in nanoseconds, its size in bytes, and 63 bits of its inode."""

    changed_ns: int
    size: int
    inode: int


def stamp_of(found: os.stat_result) -> Stamp:
    """Return the stamp of a file or a directory."""
    return Stamp(found.st_ctime_ns, found.st_size, found.st_ino & _GREATEST)


_LEADING: Final = 1 + len(Stamp._fields)
"""Length of a row without the numbers of a part: the part's own number, and its stamp."""


class KnownPart(NamedTuple):
    """A part's stamp, and the store's numbers for it."""

    stamp: Stamp
    numbers: tuple[int, ...]


class KnownParts:
    """The parts that were written down, in order of their numbers, and the ``items`` of all parts.

    The parts stay in the arrays that were read, because objects for a hundred thousand directories would take
    40 MB of every start.
    """

    def __init__(self, rows: "array[int]", items: "array[int]", width: int) -> None:
        self.items = items
        self._until_ns = rows[0]
        self._rows = rows
        self._row_length = _LEADING + width
        self._numbers = rows[1 :: self._row_length]

    def __iter__(self) -> Iterator[KnownPart]:
        return map(self.__getitem__, range(len(self._numbers)))

    def __getitem__(self, place: int) -> KnownPart:
        begin = 1 + place * self._row_length
        row = self._rows[begin : begin + self._row_length]
        return KnownPart(Stamp(*row[1:_LEADING]), tuple(row[_LEADING:]))

    def place_of(self, number: int) -> int:
        """Return the place of a part in the order, or where it would be."""
        return bisect_left(self._numbers, number)

    def get(self, number: int, stamp: Stamp) -> KnownPart | None:
        """Return what is known of a part with this stamp; None if it must be read."""
        place = self.place_of(number)
        is_known = place < len(self._numbers) and self._numbers[place] == number
        if not is_known or stamp.changed_ns >= self._until_ns:
            return None
        part = self[place]
        return part if part.stamp == stamp else None


NOTHING: Final = KnownParts(array("q", (0,)), array("q"), 0)


def save_known(
    root: Path,
    kind: str,
    width: int,
    parts: Iterable[tuple[int, KnownPart]],
    items: Iterable["array[int]"] = (),
) -> None:
    """Replace the file in the folder, or remove it if there are no parts. Each part has ``width`` numbers.

    ``items`` has the items of all parts, in order of the parts' numbers. Raises OSError.
    """
    rows, rest = array("q", (0,)), array("q")
    count = 0
    for number, part in sorted(parts):
        rows.extend((number, *part.stamp, *part.numbers))
        count += 1
    for some in items:
        rest.extend(some)
    if not count:
        (root / KNOWN).unlink(missing_ok=True)
        return
    temporary = root / f"{KNOWN}.tmp"
    try:
        with temporary.open("wb") as file:
            # By the file system's own clock, which also stamps files that are changed later.
            rows[0] = os.fstat(file.fileno()).st_ctime_ns - SETTLING_NS
            check = zlib.crc32(rest, zlib.crc32(rows))
            file.write(
                b"%s %s %s %d %d %d %d\n"
                % (_MAGIC, kind.encode(), sys.byteorder.encode(), width, count, len(rest), check)
            )
            rows.tofile(file)
            rest.tofile(file)
        temporary.replace(root / KNOWN)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def load_known(root: Path, kind: str, width: int) -> KnownParts:
    """Read the file in the folder. A missing or altered file yields no parts."""
    if sys.platform == "win32":  # its st_ctime is when a file was created
        return NOTHING
    rows, items = array("q"), array("q")
    try:
        with (root / KNOWN).open("rb") as file:
            *head, wide, count, size, check = file.readline(_LONGEST_LINE).split()
            if head != [*_MAGIC.split(), kind.encode(), sys.byteorder.encode()] or int(wide) != width:
                return NOTHING
            numbers = 1 + int(count) * (_LEADING + width)
            if os.fstat(file.fileno()).st_size != file.tell() + (numbers + int(size)) * _NUMBER_BYTES:
                return NOTHING
            rows.fromfile(file, numbers)
            items.fromfile(file, int(size))
            if zlib.crc32(items, zlib.crc32(rows)) != int(check):
                return NOTHING
    except (OSError, EOFError, ValueError):
        return NOTHING
    return KnownParts(rows, items, width)
