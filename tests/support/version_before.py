"""Data written by the previous version, which used other package names.

Commit 45cda4a wrote ``version_before.tar.xz``: a store with a manual clock, a rollup and a report.json of it.
In the store, 20 messages had been delivered by level 3. Consumers had received four and acknowledged two.
Three messages were pending: one of level 16, one due after 90 minutes, and a half message.
"""

import tarfile
from pathlib import Path

ARCHIVE = Path(__file__).with_name("version_before.tar.xz")


def unpack(part: str, folder: Path) -> Path:
    """Unpack ``store``, ``rollup`` or ``report/report.json`` into the folder."""
    with tarfile.open(ARCHIVE) as archive:
        members = [each for each in archive.getmembers() if f"{each.name}/".startswith(f"{part}/")]
        archive.extractall(folder, members, filter="data")
    return folder / part
