"""The version and the names of a release, and the places in the tree that contain them.

``make names`` writes the values into all places. ``--check`` only lists the places that differ, and
``--outputs`` prints the values as a GitHub workflow's outputs. The version is ``mocketmq.__version__``;
``names.toml`` beside this file has the names.
"""

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
NAMES = Path(__file__).with_name("names.toml")


class Place(NamedTuple):
    """Files, as globs, and a pattern in which each group is named after the value that it must match."""

    files: tuple[str, ...]
    pattern: str


class Difference(NamedTuple):
    """A value in a file that is not the release's."""

    file: Path
    line: int
    name: str
    found: str
    wanted: str


_PAGES = ("README*.md", "docs/**/*.md", "kits/**/*.md")
_POMS = ("kits/java/pom.xml", "kits/java/*/pom.xml", "tests/**/pom.xml")
_VERSION = r"(?P<version>\d[\w.]*)"
PLACES = (
    Place(
        (*_POMS, *_PAGES),
        r"<groupId>(?P<maven_group>[\w.-]+)</groupId>\s*<artifactId>mocketmq-[\w-]+</artifactId>"
        rf"(?:\s*<version>{_VERSION}</version>)?",
    ),
    Place(("kits/java/**/FoundBroker.java",), r"(?P<maven_group>[\w.]+):mocketmq-"),
    Place(("kits/java/**/MocketMqContainer.java",), rf'"mocketmq\.image", "(?P<image>[\w./-]+):{_VERSION}"'),
    Place(
        (
            *("kits/java/pom.xml", "kits/java/*/about/README.md", "kits/node/package.json"),
            *("charts/*/Chart.yaml", "pyproject.toml"),
            *("SECURITY.md", "SUPPORT.md", ".github/ISSUE_TEMPLATE/*.yml"),
        ),
        r"https://(?P<repository>github\.com/[\w-]+/[\w-]+)",
    ),
    Place(
        ("kits/go/**/*.go", "kits/go/go.mod", "tests/**/*.py", "tests/kits/**/*.go", *_PAGES),
        r"(?P<repository>\w+\.com/[\w-]+/[\w-]+)/kits/go\b",
    ),
    Place(
        ("kits/node/package.json", "tests/kits/node/package-lock.json"),
        rf'"name": "(?P<npm>[^"]+)",\n +"version": "{_VERSION}",\n +"(?:dev|description)"',
    ),
    Place(
        ("tests/kits/**/*.*s", *_PAGES),
        r"\{ (?:start|useMocketmq)\b[^}]*\} (?:= require\(|from )'(?P<npm>[^']+)'",
    ),
    Place(("charts/*/Chart.yaml",), rf"(?:v|appV)ersion: {_VERSION}"),
    Place(("docs/**/recipes/*.md",), rf"docker build -t (?P<image>[\w./-]+):{_VERSION}"),
    Place(("docs/**/recipes/*.md",), r"oci://(?P<charts>\S+)/mocketmq\b"),
    Place(("charts/kustomize/*.yaml",), rf"newName: (?P<image>\S+)\n +newTag: {_VERSION}"),
    Place(("docs/**/recipes/*.md",), rf"https://(?P<repository>\S+)//charts/kustomize\?ref=v{_VERSION}"),
    Place(("charts/*/values.yaml",), r"repository: (?P<image>\S+)"),
    Place(("pyproject.toml",), r'(?m)^name = "(?P<pypi>[^"]+)"'),
    Place(("pyproject.toml",), rf'"(?P<pypi_client>[\w-]+)=={_VERSION}",  # kits/python'),
    Place(("kits/python/pyproject.toml",), r'(?m)^name = "(?P<pypi_client>[^"]+)"'),
    Place(("docs/**/recipes/*.md",), rf"uses: (?P<action>\S+)@v{_VERSION}\n +id: rocketmq"),
    Place(  # files of wheels and bundles
        ("tests/kits/*.py", "kits/go/**/*.go", "kits/node/test/*.js", *_PAGES),
        rf"\bmocketmq-{_VERSION}(?=-(?:py3|linux|macos|windows|<system>))",
    ),
)


def values() -> dict[str, str]:
    """Return the version and the names, with the names derived from them."""
    about = (ROOT / "emulator/mocketmq/__init__.py").read_text("utf-8")
    [version] = re.findall(r'^__version__ = "(.+)"', about, re.MULTILINE)
    names: dict[str, str] = tomllib.loads(NAMES.read_text("utf-8"))
    return {**names, "version": version, "action": names["repository"].partition("/")[2]}


def files_of(place: Place) -> list[Path]:
    """Return the files of a place, except files that were built or installed in the tree."""
    found = {file for glob in place.files for file in ROOT.glob(glob)}
    return sorted(file for file in found if not {"target", "node_modules", "build"} & set(file.parts))


def differences() -> Iterator[Difference]:
    """Yield every place that names another version or name than the release does."""
    wanted = values()
    for place in PLACES:
        for file in files_of(place):
            text = file.read_text("utf-8")
            for match in re.finditer(place.pattern, text):
                for name, found in match.groupdict().items():
                    if found is not None and found != wanted[name]:
                        line = text.count("\n", 0, match.start(name)) + 1
                        yield Difference(file, line, name, found, wanted[name])


def write() -> None:
    """Write the values into all places."""
    wanted = values()

    def mended(match: re.Match[str]) -> str:
        text = match[0]
        for name in sorted(match.groupdict(), key=match.start, reverse=True):
            if match[name] is not None:
                begin, end = match.start(name) - match.start(), match.end(name) - match.start()
                text = text[:begin] + wanted[name] + text[end:]
        return text

    for place in PLACES:
        for file in files_of(place):
            text = file.read_text("utf-8")
            new = re.sub(place.pattern, mended, text)
            if new != text:
                file.write_text(new, "utf-8")
                print(f"{file.relative_to(ROOT)}: written")


def main(arguments: list[str]) -> None:
    """Write, check or print the values."""
    if arguments == ["--outputs"]:
        for name, value in values().items():
            print(f"{name}={value}")
    elif arguments == ["--check"]:
        found = [
            f"{each.file.relative_to(ROOT)}:{each.line}: {each.name} is {each.found}, not {each.wanted}"
            for each in differences()
        ]
        if found:
            sys.exit("\n".join([*found, "`make names` writes them all"]))
    else:
        write()


if __name__ == "__main__":
    main(sys.argv[1:])
