"""Make docs/aliyun-clients.md, which shows the features that work with each SDK of Aliyun.

``make test`` and ``make interop`` save results; ``python -m tests.clients.compatibility`` makes this page and
docs/compatibility.md (see ``features``) from them. ``python -m tests.clients.compatibility codes`` writes the
tables of request codes and of newer features, which need no results.
"""

import importlib
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients import features
from tests.clients.java import versions as java
from tests.clients.results import Results, missing, saved

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "aliyun-clients.md"
SAVED = ROOT / "build" / "aliyun-clients.json"

SDKS = {
    "python": "Python `mq_http_sdk`",
    "node": "Node `@aliyunmq/mq-http-sdk`",
    "java": "Java `mq-http-sdk`",
}
"""Names of the SDKs for users. The lock files of each language pin the versions."""

SECTIONS = {
    "publish_consume": "Publishing and consuming",
    "start_deliver_time": "Delayed messages",
    "order": "Messages in order",
    "transactions": "Transactions",
    "doors": "Beside the JSON API",
    "python": "The Python library",
    "node": "The Node library",
    "java": "The Java library",
}
"""Test modules that demonstrate conformance points, in the order of the page."""

_HEAD = """\
# Aliyun's HTTP clients

The features that work with Aliyun's own, unmodified client libraries. `python -m tests.clients.compatibility`
makes this page from runs of `make test` and `make interop`; do not edit it. A dash means that the row does
not apply to the library."""
_CELLS = {True: "yes", False: "**no**", None: "–"}


def points() -> dict[str, dict[str, set[str]]]:
    """Return the SDKs that tests try each point with, by section and point."""
    found: dict[str, dict[str, set[str]]] = {title: {} for title in SECTIONS.values()}
    for file in Path(__file__).parent.glob("test_*.py"):
        module = importlib.import_module(f"{__package__}.{file.stem}")
        for test in vars(module).values():
            for mark in getattr(test, "pytestmark", []):
                if mark.name == "point":
                    section = found[SECTIONS[file.stem.removeprefix("test_")]]
                    section.setdefault(mark.args[0], set()).update(sdks_of(mark))
    return found


def sdks_of(mark: pytest.Mark) -> list[str]:
    """Return the SDKs that a test's point concerns, which are all unless the mark names some."""
    return list(mark.args[1:]) or list(SDKS)


def shown_by(item: pytest.Item) -> Iterator[tuple[str, str]]:
    """Return the SDKs that this run of a test concerns, each with the point."""
    for mark in item.iter_markers("point"):
        sdk: str | None = item.callspec.params.get("open_sdk") if hasattr(item, "callspec") else None
        yield from ((one, mark.args[0]) for one in ([sdk] if sdk else sdks_of(mark)))


def tried() -> dict[str, set[str]]:
    """Return the points that tests try with each SDK."""
    found = [(name, sdks) for section in points().values() for name, sdks in section.items()]
    return {sdk: {name for name, sdks in found if sdk in sdks} for sdk in SDKS}


def versions() -> dict[str, str]:
    """Return the version of each tested SDK."""
    pins = (ROOT / "requirements-dev.lock").read_text()
    package = json.loads((Path(__file__).parent / "node" / "package.json").read_text())
    [python] = re.findall(r"^mq-http-sdk==(\S+)", pins, re.MULTILINE)
    ours = {"python": python, "node": package["dependencies"]["@aliyunmq/mq-http-sdk"]}
    return ours | {"java": java.versions()["http-java"]}


def page(results: Results) -> str:
    """Return the text of the page, from the results of a complete run."""
    titles = " | ".join(f"{title} {versions()[sdk]}" for sdk, title in SDKS.items())
    lines = [_HEAD]
    for title, section in points().items():
        lines += [f"\n## {title}\n", f"| | {titles} |", f"|---{'|---' * len(SDKS)}|"]
        for name in section:
            cells = " | ".join(_CELLS[results[sdk].get(name)] for sdk in SDKS)
            lines.append(f"| {name} | {cells} |".replace("||", r"\|\|"))
    return "\n".join(lines) + "\n"


def main(*arguments: str) -> str | None:
    """Write the pages. Returns instructions to get missing results, if any."""
    if arguments == ("codes",):
        features.write_codes()
        return None
    results = saved(SAVED)
    if how := missing(tried(), results):
        return how
    PAGE.write_text(page(results))
    return features.write()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
