"""The quarantine: a folder ``.bad`` for damaged data, each piece beside a text file with the reason."""

import logging
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Final

log = logging.getLogger(__name__)

FOLDER: Final = ".bad"
REASON: Final = ".reason"


class Quarantine:
    """Stores damaged pieces. Counts pieces added since the start by kind, and all pieces in the folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.met: Counter[str] = Counter()
        self.pieces = 0
        with suppress(FileNotFoundError):
            self.pieces = sum(path.suffix != REASON for path in (root / FOLDER).iterdir())

    def place_for(self, name: str, kind: str, reason: str) -> Path:
        """Return a path for a damaged piece, after writing the reason beside it. Raises OSError."""
        self.met[kind] += 1
        self.pieces += 1
        bad = self.root / FOLDER
        bad.mkdir(exist_ok=True)
        place = bad / Path(name).name
        place.with_name(f"{place.name}{REASON}").write_text(f"{reason}\n", "utf-8")
        log.warning("quarantining %s: %s", self.root / name, reason)
        return place
