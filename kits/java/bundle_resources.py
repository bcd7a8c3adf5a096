"""Lays the bundle out for the jar ``mocketmq-bundle-SYSTEM``: ``python kits/java/bundle_resources.py``.

The files are not packed, because Java cannot read ``.tar.xz``. ``Bundle.java`` reads ``files.txt``, which has
each file's SHA-256 digest, ``x`` if the file is executable or else ``-``, and path.
"""

import hashlib
import os
import re
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
INTO = ROOT / "build" / "kits" / "java"


def main() -> None:
    """Copy the bundles of this version."""
    [version] = re.findall(
        r'^__version__ = "(.+)"', (ROOT / "emulator/mocketmq/__init__.py").read_text(), re.MULTILINE
    )
    found = [folder for folder in (ROOT / "dist").glob(f"mocketmq-{version}-*") if folder.is_dir()]
    if not found:
        sys.exit("no bundle in dist; run `make bundle` first")
    for folder in found:
        system = folder.name.removeprefix(f"mocketmq-{version}-")
        resources = INTO / f"bundle-{system}"
        shutil.rmtree(resources, ignore_errors=True)
        copy(folder, resources / "io" / "github" / "mocketmq" / "bundle" / system)


def copy(folder: Path, into: Path) -> None:
    """Copy a folder and list its files."""
    shutil.copytree(folder, into)
    lines = []
    for file in sorted(path for path in into.rglob("*") if path.is_file()):
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        mark = "x" if os.access(file, os.X_OK) else "-"
        lines.append(f"{digest} {mark} {file.relative_to(into).as_posix()}\n")
    (into / "files.txt").write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
