"""Make docs/aliyun-clients.md, of what works with which SDK; ``features`` makes docs/compatibility.md.

``make test ARGS=tests/clients`` keeps its results, and ``python -m tests.clients.compatibility`` makes the
pages from them. ``python -m tests.clients.compatibility codes`` writes the table of request codes, which
needs no results.
"""

import importlib
import json
import re
import sys
from pathlib import Path

from tests.clients import features

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "aliyun-clients.md"
SAVED = ROOT / "build" / "aliyun-clients.json"

SDKS = {"python": "Python `mq_http_sdk`", "node": "Node `@aliyunmq/mq-http-sdk`"}
"""Names for users. The locks pin the versions."""

SECTIONS = {
    "publish_consume": "Publishing and consuming",
    "start_deliver_time": "Delayed messages",
    "order": "Messages in order",
    "transactions": "Transactions",
    "doors": "Beside the JSON API",
    "python": "The Python library",
    "node": "The Node library",
}
"""The test modules that show points, in the order of the page."""

Results = dict[str, dict[str, bool]]
"""By point and SDK, whether the point held."""

_HEAD = """\
# Aliyun's HTTP clients

The features that work with Aliyun's own, unmodified client libraries. This page is made from a run of
`tests/clients`, by `python -m tests.clients.compatibility`; do not edit it. A dash: the
point does not apply to that library."""
_CELLS = {True: "yes", False: "**no**", None: "–"}


def points() -> dict[str, dict[str, set[str]]]:
    """By section and point, the SDKs that tests try the point with."""
    found: dict[str, dict[str, set[str]]] = {title: {} for title in SECTIONS.values()}
    for file in Path(__file__).parent.glob("test_*.py"):
        module = importlib.import_module(f"{__package__}.{file.stem}")
        for test in vars(module).values():
            for mark in getattr(test, "pytestmark", []):
                if mark.name == "point":
                    section = found[SECTIONS[file.stem.removeprefix("test_")]]
                    sdks = {mark.kwargs["sdk"]} if "sdk" in mark.kwargs else set(SDKS)
                    section.setdefault(mark.args[0], set()).update(sdks)
    return found


def tried() -> dict[str, set[str]]:
    """By point, the SDKs that tests try it with."""
    return {name: sdks for section in points().values() for name, sdks in section.items()}


def versions() -> dict[str, str]:
    """The version of each SDK that is tested."""
    pins = (ROOT / "requirements-dev.lock").read_text()
    package = json.loads((Path(__file__).parent / "node" / "package.json").read_text())
    [python] = re.findall(r"^mq-http-sdk==(\S+)", pins, re.MULTILINE)
    return {"python": python, "node": package["dependencies"]["@aliyunmq/mq-http-sdk"]}


def page(results: Results) -> str:
    """The text of the page, from the results of a whole run."""
    titles = " | ".join(f"{title} {versions()[sdk]}" for sdk, title in SDKS.items())
    lines = [_HEAD]
    for title, section in points().items():
        lines += [f"\n## {title}\n", f"| | {titles} |", f"|---{'|---' * len(SDKS)}|"]
        for name in section:
            cells = " | ".join(_CELLS[results[name].get(sdk)] for sdk in SDKS)
            lines.append(f"| {name} | {cells} |".replace("||", r"\|\|"))
    return "\n".join(lines) + "\n"


def save(results: Results) -> None:
    """Keep the results of a run, unless there are none."""
    if results:
        SAVED.parent.mkdir(exist_ok=True)
        SAVED.write_text(json.dumps(results))


def main(*arguments: str) -> str | None:
    """Write the pages. Returns the missing results, if any."""
    if arguments == ("codes",):
        features.write_codes()
        return None
    results: Results = json.loads(SAVED.read_text()) if SAVED.exists() else {}
    if {name: set(held) for name, held in results.items()} != tried():
        return "The last run was not one of all tests: make test ARGS=tests/clients"
    PAGE.write_text(page(results))
    return features.write()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
