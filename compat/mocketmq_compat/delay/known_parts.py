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
from collections.abc import Iterable, Mapping
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


class KnownPart(NamedTuple):
    """A part's stamp, and the store's numbers for it."""

    stamp: Stamp
    numbers: tuple[int, ...]


class KnownParts(NamedTuple):
    """The parts by their numbers, the items of all parts, and the time before which stamps are trusted."""

    parts: Mapping[int, KnownPart]
    items: "array[int]"
    until_ns: int

    def get(self, number: int, stamp: Stamp) -> KnownPart | None:
        """Return the known numbers of a part with this stamp; None if it must be read."""
        part = self.parts.get(number)
        return None if part is None or part.stamp != stamp or stamp.changed_ns >= self.until_ns else part


NOTHING: Final = KnownParts({}, array("q"), 0)


def save_known(
    root: Path,
    kind: str,
    width: int,
    parts: Iterable[tuple[int, KnownPart]],
    items: Iterable["array[int]"] = (),
) -> None:
    """Replace the file in the folder, or remove it if there are no parts. Each part has ``width`` numbers.

    Raises OSError.
    """
    rows, rest = array("q", (0,)), array("q")
    count = 0
    for number, part in parts:
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
            # On the file system's own clock. Files changed later get this time or a later one.
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
            numbers = 1 + int(count) * (1 + len(Stamp._fields) + width)
            if os.fstat(file.fileno()).st_size != file.tell() + (numbers + int(size)) * _NUMBER_BYTES:
                return NOTHING
            rows.fromfile(file, numbers)
            items.fromfile(file, int(size))
            if zlib.crc32(items, zlib.crc32(rows)) != int(check):
                return NOTHING
    except (OSError, EOFError, ValueError):
        return NOTHING
    fields = iter(rows)
    until_ns = next(fields)
    parts = {
        number: KnownPart(Stamp(*some[:3]), tuple(some[3:]))
        for number, *some in zip(*[fields] * (1 + len(Stamp._fields) + width), strict=True)
    }
    return KnownParts(parts, items, until_ns)
