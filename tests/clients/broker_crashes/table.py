"""The tables of docs/brokers-and-clients.md, in each language: made of the last runs, and read by the tests.

The rest of the pages is written by hand: a section for each situation, which ends with the rows of its table.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.clients import features
from tests.clients.broker_crashes.clients import CLIENTS
from tests.clients.broker_crashes.play import Seen

ROOT: Final = Path(__file__).parents[3]
ENGLISH: Final = ROOT / "docs" / "brokers-and-clients.md"
CHINESE: Final = ROOT / "docs" / "zh-CN" / "brokers-and-clients.md"
SAVED: Final = ROOT / "build" / "broker_crashes.json"
HOW: Final = "make interop ARGS=tests/clients/broker_crashes; python -m tests.clients.broker_crashes"

SITUATIONS: Final = (
    "storing",
    "sends",
    "keyed sends",
    "no broker",
    "consuming",
    "in order",
    "transactions",
    "in transaction",
)
"""In the order of the sections."""
_CHINESE_WORDS: Final = (
    (r"^defaults$", "默认"),
    (r"^has none$", "不支持"),
    (r"^no error$", "没有报错"),
    (r"^errors$", "有报错"),
    (r"^it returns$", "正常返回"),
    (r"^not$", "没有"),
    (r"^all are sent$", "全部成功"),
    (r"^one fails at most$", "最多一次失败"),
    (r"\bsome fail: ", "部分失败："),
    (r"\ball fail: ", "全部失败："),
    (r"^sent$", "成功"),
    (r"^at once$", "立即"),
    (r"^in (\d+) s$", r"\1 s 后"),
    (r"^after 120 s$", "120 s 后"),
    (r"^not within (\d+) s$", r"\1 s 内没有恢复"),
    (r"^by a check back, ", "由回查提交，"),
    (r"^more than once\b", "不止一次"),
    (r"\bonce\b", "一次"),
    (r"\btwice\b", "两次"),
    (r"\b(\d+) times\b", r"\1 次"),
    (r", in order$", "，有序"),
)
"""Translations of what is in cells outside of code."""


def with_rows(page: Path, seen: dict[str, Seen]) -> str:
    """Return the page's text with the rows of these results."""
    head, *sections = page.read_text("utf-8").split("\n## ")
    for number, situation in enumerate(SITUATIONS):
        text, line, _ = re.split(r"(\n\|(?:---\|)+\n)", sections[number])
        rows = "".join(f"{row}\n" for row in _rows(situation, seen, is_chinese=page == CHINESE))
        sections[number] = f"{text}{line}{rows}"
    return "\n## ".join([head, *sections])


def _rows(situation: str, seen: dict[str, Seen], *, is_chinese: bool) -> Iterator[str]:
    for client, title in _titles().items():
        for settings, cells in seen[client].get(situation, {}).items():
            words = [in_chinese(each) if is_chinese else each for each in (settings, *cells)]
            yield f"| {title} | {' | '.join(words)} |"


def in_chinese(cell: str) -> str:
    """Translate a cell."""
    parts = re.split(r"(`[^`]*`)", cell)
    for pattern, word in _CHINESE_WORDS:
        parts[::2] = [re.sub(pattern, word, part) for part in parts[::2]]
    return "".join(parts)


def _titles() -> dict[str, str]:
    versions = features.versions()
    return {client: f"{has.tried.title} {versions[client]}" for client, has in CLIENTS.items()}


def documented() -> dict[str, Seen]:
    """Return the results on the English page."""
    seen: dict[str, Seen] = {client: {name: {} for name in SITUATIONS} for client in CLIENTS}
    clients = {title: client for client, title in _titles().items()}
    sections = ENGLISH.read_text("utf-8").split("\n## ")[1:]
    for situation, section in zip(SITUATIONS, sections, strict=True):
        for line in section.splitlines():
            row, *cells = re.split(r" (?<!\\)\| ", line.removeprefix("| ").removesuffix(" |"))
            if row in clients:
                seen[clients[row]][situation][cells[0]] = cells[1:]
    return seen


def without_real_time(seen: Seen) -> Seen:
    """Return the cells that are the same in each run."""
    return {name: {row: cells[:-1] for row, cells in rows.items()} for name, rows in seen.items()}


def save(seen: dict[str, Seen]) -> None:
    """Save the results next to earlier results of other clients."""
    SAVED.parent.mkdir(exist_ok=True)
    SAVED.write_text(json.dumps(saved() | seen))


def saved() -> dict[str, Seen]:
    """Return the results of the last runs."""
    found: dict[str, Seen] = json.loads(SAVED.read_text()) if SAVED.exists() else {}
    return found


def write() -> str | None:
    """Write the rows of both pages. Returns instructions to get missing results, if any."""
    seen = saved()
    if missing := [client for client in CLIENTS if client not in seen]:
        return f"nothing is known of {', '.join(missing)}: {HOW}"
    for page in (ENGLISH, CHINESE):
        page.write_text(with_rows(page, seen), "utf-8")
    return None
