"""Make one file of a bundle: ``python kits/bundle/one_file.py``, which ``make bundle`` does as well.

The file is a shell script followed by the archive. The script unpacks the archive into the user's cache, once
for each digest, and runs the program there. PyInstaller's own single file would unpack itself at each start.
"""

import hashlib
from pathlib import Path

DIST = Path(__file__).parents[2] / "dist"
SCRIPT = """\
#!/bin/sh
# mocketmq, which unpacks itself into the user's cache, once, and runs from there. It needs tar and xz.
set -eu
folder=${{XDG_CACHE_HOME:-$HOME/.cache}}/mocketmq/{name}
if [ ! -x "$folder/mocketmq" ]; then
    mkdir -p "${{folder%/*}}"
    own=$(mktemp -d "${{folder%/*}}/unpacking-XXXXXX")
    trap 'rm -rf "$own"' EXIT
    tail -n +{lines} "$0" | tar -xJ -C "$own"
    mv "$own"/* "$folder" 2>/dev/null || [ -x "$folder/mocketmq" ] # another process may have been first
    rm -rf "$own" "$folder"/mocketmq-*
fi
exec "$folder/mocketmq" "$@"
"""


def make_one_file(archive: Path) -> Path:
    """Make the file beside the archive, without its suffix."""
    content = archive.read_bytes()
    name = archive.name.removesuffix(".tar.xz")
    folder = f"{name}-{hashlib.sha256(content).hexdigest()[:16]}"
    lines = SCRIPT.count("\n") + 1
    file = archive.with_name(f"{name}.run")
    file.write_bytes(SCRIPT.format(name=folder, lines=lines).encode() + content)
    file.chmod(0o755)
    return file


if __name__ == "__main__":
    for each in DIST.glob("mocketmq-*.tar.xz"):
        print(f"Built {make_one_file(each).relative_to(DIST.parent)}")
