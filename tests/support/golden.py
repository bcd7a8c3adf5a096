"""Golden files: reviewed output that must stay the same.

``GOLDEN=write pytest …`` rewrites them; review the difference before committing it.
"""

import os
from pathlib import Path


def check(path: Path, text: str) -> None:
    """Compare the text with the golden file."""
    if os.environ.get("GOLDEN") == "write":
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, "utf-8")
    assert text == path.read_text("utf-8")
