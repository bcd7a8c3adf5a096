"""Build the site of the documentation: ``make site``. A dead link or a dead anchor fails the build.

The pages are those of ``docs``, which also read well on GitHub, and the first pages in this folder. Links out
of ``docs`` lead to GitHub. Each version has a folder of its own, listed in ``versions.json`` for the theme's
menu of versions::

    <into>/versions.json
    <into>/index.html      leads to the newest version
    <into>/0.1.0/…

``publish.py`` builds into the branch ``gh-pages``, which keeps the earlier versions, and pushes it.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

from chinese import in_chinese

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
WORK = ROOT / "build" / "site"
DOCS = WORK / "docs"
REPOSITORY = "https://github.com/mocketmq/mocketmq"
OWN = {"index.md": "index.md", "index.zh-CN.md": "zh-CN/index.md", "site.css": "site.css"}
LINK = re.compile(r"(\]\()(\.\./[^)#\s]+)(#[^)\s]*)?(?=\))")
COLOR = re.compile("\x1b\\[[0-9;]*m")
LEADING = """\
<!doctype html><html lang="en"><meta charset="utf-8"><title>mocketmq</title>
<meta http-equiv="refresh" content="0; url={0}/"><a href="{0}/">mocketmq {0}</a>
"""


def main() -> None:
    """Put the pages together and build them."""
    arguments = argparse.ArgumentParser(description="Build the site of the documentation.")
    arguments.add_argument(
        "--into", type=Path, default=WORK / "html", help="folder of all versions, inside build/site"
    )
    chosen = arguments.parse_args()
    version = _version()
    shutil.rmtree(DOCS, ignore_errors=True)
    shutil.copytree(ROOT / "docs", DOCS)
    for page in DOCS.rglob("*.md"):
        origin = ROOT / "docs" / page.relative_to(DOCS)
        page.write_text(LINK.sub(partial(_led_out, origin), page.read_text("utf-8")), "utf-8")
    for name, place in OWN.items():
        shutil.copyfile(HERE / name, DOCS / place)
    site = chosen.into.absolute() / version
    shutil.rmtree(site, ignore_errors=True)
    config = _with_all_pages((HERE / "zensical.toml").read_text("utf-8"))
    where = f"[project]\nsite_dir = {json.dumps(os.path.relpath(site, WORK))}\n"
    config = config.replace("[project]\n", where, 1)
    theme = f"[project.theme]\ncustom_dir = {json.dumps(os.path.relpath(HERE / 'theme', WORK))}\n"
    (WORK / "zensical.toml").write_text(config.replace("[project.theme]\n", theme, 1), "utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--strict", "--clean"], check=False, cwd=WORK, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env={**os.environ, "NO_COLOR": "1"},
    )  # fmt: skip
    if done.returncode:
        sys.exit("the site has faults:\n" + COLOR.sub("", done.stdout))
    shutil.copyfile(site / "sitemap.xml", site / "zh-CN" / "sitemap.xml")  # the menu of languages asks for it
    in_chinese(site)
    _list(chosen.into, version)
    print(f"{site / 'index.html'}")


def _with_all_pages(config: str) -> str:
    """Add pages that have no place in the navigation to the end of the reference, or of the Chinese pages."""
    rest = [
        page for page in sorted(DOCS.rglob("*.md")) if f'"{page.relative_to(DOCS).as_posix()}"' not in config
    ]
    for mark, is_chinese in (("# more zh-CN", True), ("# more\n", False)):
        pages = [page for page in rest if ("zh-CN" in page.relative_to(DOCS).parts) == is_chinese]
        entries = (
            f"{{ {json.dumps(_title(page))} = {json.dumps(page.relative_to(DOCS).as_posix())} }},\n"
            for page in pages
        )
        config = config.replace(mark, "".join(entries), 1)
    return config


def _title(page: Path) -> str:
    return page.read_text("utf-8").partition("\n")[0].removeprefix("# ")


def _version() -> str:
    text = (ROOT / "emulator/mocketmq/__init__.py").read_text("utf-8")
    return re.findall(r'__version__ = "(.+)"', text)[0]


def _led_out(origin: Path, match: re.Match[str]) -> str:
    """Lead a link of a page that leaves the documentation to GitHub."""
    target = Path(os.path.normpath(origin.parent / match[2]))
    if ROOT / "docs" in target.parents:
        return match[0]
    anchor = match[3] or ""
    if not target.exists():
        sys.exit(f"{origin} leads to {match[2]}, which does not exist")
    kind = "tree" if target.is_dir() else "blob"
    return f"{match[1]}{REPOSITORY}/{kind}/main/{target.relative_to(ROOT)}{anchor}"


def _list(into: Path, version: str) -> None:
    """Add the version to the list of versions, as the newest."""
    file = into / "versions.json"
    known = json.loads(file.read_text("utf-8")) if file.exists() else []
    others = [{**each, "aliases": []} for each in known if each["version"] != version]
    versions = [{"version": version, "title": version, "aliases": ["latest"]}, *others]
    file.write_text(json.dumps(versions, indent=2) + "\n", "utf-8")
    (into / "index.html").write_text(LEADING.format(version), "utf-8")
    (into / ".nojekyll").touch()


if __name__ == "__main__":
    main()
