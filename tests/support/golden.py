"""Golden files: what a program once wrote, looked at by a person, and must write again.

``GOLDEN=write pytest …`` writes them anew; look at the difference before it is committed.
"""

import os
from pathlib import Path


def check(path: Path, text: str) -> None:
    """Compare the text with the file."""
    if os.environ.get("GOLDEN") == "write":
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, "utf-8")
    assert text == path.read_text("utf-8")
