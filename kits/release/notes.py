"""Print a version's part of CHANGELOG.md, as release notes: ``python kits/release/notes.py [--dated]``.

With ``--dated``, the version must have a date, which a release requires.
"""

import re
import sys

from names import ROOT, values

_DATED = re.compile(r"\d{4}-\d{2}-\d{2}")


def notes(changelog: str, version: str, *, dated: bool) -> str:
    """Return the lines below the version's heading. Raises ValueError, which says what to write."""
    heading, _, rest = changelog.partition(f"\n## {version} – ")[2].partition("\n")
    text = re.split(r"^## ", rest, maxsplit=1, flags=re.MULTILINE)[0].strip()
    if not text:
        raise ValueError(f"CHANGELOG.md has nothing under a heading '## {version} – DATE'")
    if dated and not _DATED.fullmatch(heading):
        raise ValueError(
            f"CHANGELOG.md says '## {version} – {heading}': write the day of the release, as 2026-01-31"
        )
    return text


if __name__ == "__main__":
    try:
        changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")
        print(notes(changelog, values()["version"], dated="--dated" in sys.argv))
    except ValueError as error:
        sys.exit(str(error))
