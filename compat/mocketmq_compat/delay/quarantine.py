"""The quarantine: a folder ``.bad`` for damaged data, each piece next to a text file with the reason."""

import logging
from collections import Counter
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Final

log = logging.getLogger(__name__)

QUARANTINE: Final = ".bad"
REASON: Final = ".reason"


def pieces_in(root: Path) -> int:
    """Return the number of pieces in the quarantine below a scheme's folder."""
    with suppress(FileNotFoundError):
        return sum(path.suffix != REASON for path in (root / QUARANTINE).iterdir())
    return 0


def note_reason(piece: Path, reason: str) -> None:
    """Write the reason next to a piece. Raises OSError."""
    piece.with_name(f"{piece.name}{REASON}").write_text(f"{reason}\n", "utf-8")


class Quarantine:
    """Stores damaged pieces. Counts pieces added since the start by kind, and all pieces in the folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.met: Counter[str] = Counter()
        self.pieces = pieces_in(root)

    def place_for(self, name: str, kind: str, reason: str) -> Path:
        """Return a new path for a damaged piece, after writing the reason next to it. Raises OSError."""
        self.met[kind] += 1
        self.pieces += 1
        bad = self.root / QUARANTINE
        bad.mkdir(exist_ok=True)
        piece = Path(name).name
        names = (piece if number == 1 else f"{piece}.{number}" for number in count(1))
        place = next(path for path in map(bad.joinpath, names) if not path.exists())
        note_reason(place, reason)
        log.warning("quarantining %s: %s", self.root / name, reason)
        return place
