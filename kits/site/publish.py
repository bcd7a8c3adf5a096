"""Publish the site of this version on the branch ``gh-pages``: ``make publish-site``.

Earlier versions stay. The branch is made if the repository has none. The workflow ``site`` runs this.
"""

import argparse
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "build" / "site" / "gh-pages"
BRANCH = "gh-pages"


def main() -> None:
    """Build the site into a work tree of the branch, and push it if it has changed."""
    argparse.ArgumentParser(
        description="Publish the site of this version on the branch gh-pages."
    ).parse_args()
    _git("worktree", "prune")
    if FOLDER.exists():
        _git("worktree", "remove", "--force", str(FOLDER))
    _git("worktree", "add", "--detach", str(FOLDER), _published())
    subprocess.run([sys.executable, ROOT / "kits/site/build.py", "--into", FOLDER], check=True)
    _git("add", "--all", cwd=FOLDER)
    if not _git("status", "--porcelain", cwd=FOLDER):
        print("the published site is the same")
        return
    _git("commit", "--quiet", "--message", f"site: {datetime.now(UTC):%Y-%m-%d}", cwd=FOLDER)
    _git("push", "--quiet", "origin", f"HEAD:refs/heads/{BRANCH}", cwd=FOLDER)
    print(f"pushed to the branch {BRANCH}")


def _published() -> str:
    """Return the newest commit of the branch, or one without files if there is no such branch."""
    if not _git("ls-remote", "--heads", "origin", BRANCH):
        return _git("commit-tree", _git("hash-object", "-t", "tree", "-w", "--stdin"), "-m", "site: begin")
    _git("fetch", "--quiet", "--depth", "1", "origin", BRANCH)
    return _git("rev-parse", "FETCH_HEAD")


def _git(*arguments: str, cwd: Path = ROOT) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=cwd, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
    )
    return done.stdout.strip()


if __name__ == "__main__":
    main()
