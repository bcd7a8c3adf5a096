"""Which conformance point holds for which SDK: makes docs/aliyun-clients.md.

``make test ARGS=tests/clients`` leaves its results behind, and ``python -m tests.clients.compatibility``
makes the page of them, and docs/compatibility.md of those of ``features``.
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
"""Names for users; the versions are those that the locks pin."""

SECTIONS = {
    "publish_consume": "Publishing and consuming",
    "start_deliver_time": "Delayed messages",
    "order": "Messages in order",
    "transactions": "Transactions",
    "doors": "Beside the JSON API",
    "python": "The Python library",
    "node": "The Node library",
}
"""The modules of tests that have points, in the order of the page."""

Results = dict[str, dict[str, bool]]
"""For each point the SDKs that it was tried with, and whether it held."""

_HEAD = """\
# Aliyun's HTTP clients

What works with Aliyun's own client libraries, unmodified. This page is made from a run of `tests/clients`, by
`python -m tests.clients.compatibility`; do not edit it. A dash: the point is not for that library."""
_CELLS = {True: "yes", False: "**no**", None: "–"}


def points() -> dict[str, dict[str, set[str]]]:
    """For each section every point of its tests, in their order, and the SDKs that it is tried with."""
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
    """All points of all sections."""
    return {name: sdks for section in points().values() for name, sdks in section.items()}


def versions() -> dict[str, str]:
    """The version of each SDK that is tested."""
    pins = (ROOT / "requirements-dev.lock").read_text()
    package = json.loads((Path(__file__).parent / "node" / "package.json").read_text())
    [python] = re.findall(r"^mq-http-sdk==(\S+)", pins, re.MULTILINE)
    return {"python": python, "node": package["dependencies"]["@aliyunmq/mq-http-sdk"]}


def page(results: Results) -> str:
    """The page, from the results of a whole run."""
    titles = " | ".join(f"{title} {versions()[sdk]}" for sdk, title in SDKS.items())
    lines = [_HEAD]
    for title, section in points().items():
        lines += [f"\n## {title}\n", f"| | {titles} |", f"|---{'|---' * len(SDKS)}|"]
        for name in section:
            cells = " | ".join(_CELLS[results[name].get(sdk)] for sdk in SDKS)
            lines.append(f"| {name} | {cells} |".replace("||", r"\|\|"))
    return "\n".join(lines) + "\n"


def save(results: Results) -> None:
    """Keep what a run found, unless it found nothing."""
    if results:
        SAVED.parent.mkdir(exist_ok=True)
        SAVED.write_text(json.dumps(results))


def main() -> str | None:
    """Write the pages; what is wrong otherwise."""
    results: Results = json.loads(SAVED.read_text()) if SAVED.exists() else {}
    if {name: set(held) for name, held in results.items()} != tried():
        return "The last run was not one of all tests: make test ARGS=tests/clients"
    PAGE.write_text(page(results))
    return features.write()


if __name__ == "__main__":
    sys.exit(main())
