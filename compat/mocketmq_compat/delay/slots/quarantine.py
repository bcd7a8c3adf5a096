"""The folder ``.bad`` for what is damaged, each piece with the reason in a text file."""

import logging
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Final

log = logging.getLogger(__name__)

FOLDER: Final = ".bad"
REASON: Final = ".reason"


class Quarantine:
    """Counts what was met since the start, by kind, and the pieces that lie there."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.met: Counter[str] = Counter()
        self.pieces = 0
        with suppress(FileNotFoundError):
            self.pieces = sum(path.suffix != REASON for path in (root / FOLDER).iterdir())

    def place_for(self, name: str, kind: str, reason: str) -> Path:
        """Where a piece goes; the reason is written beside it. Raises OSError."""
        self.met[kind] += 1
        self.pieces += 1
        bad = self.root / FOLDER
        bad.mkdir(exist_ok=True)
        place = bad / Path(name).name
        place.with_name(f"{place.name}{REASON}").write_text(f"{reason}\n", "utf-8")
        log.warning("%s is put aside: %s", self.root / name, reason)
        return place
