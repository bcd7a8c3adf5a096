"""The files that readers copy from the pages of docs/recipes."""

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.clients.java.building import BUILD_S

DOCS = Path(__file__).parents[3] / "docs"
KITS = DOCS.parent / "kits"
FOLDER = DOCS / "recipes"
PAGES = sorted(FOLDER.glob("*.md"))

_FILE = re.compile(r"<!-- test: (\S+) -->\n```\w+\n(.*?)```", re.DOTALL)


def files(page: str) -> dict[str, str]:
    """Return the files of a page, by name."""
    return dict(_FILE.findall((FOLDER / f"{page}.md").read_text("utf-8")))


def write(page: str, into: Path) -> None:
    """Copy the files of a page, as a reader does."""
    for name, text in files(page).items():
        file = into / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")


def run(*command: str, cwd: Path, **env: str) -> str:
    """Run a command, which must succeed, with ``mocketmq`` on its path, and return its output."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        command,
        check=False,
        cwd=cwd,
        env=os.environ | {"PATH": path, **env},
        timeout=BUILD_S,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout
