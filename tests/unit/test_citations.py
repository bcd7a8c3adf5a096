"""Links in the documents lead to existing files, headings and sections of ``docs/protocol``."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROTOCOL = ROOT / "docs" / "protocol"
PAGES_ABOVE = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "SUPPORT.md", "CODE_OF_CONDUCT.md")
CHINESE = ROOT / "docs" / "zh-CN"
"""Pages whose paragraphs are one line each: tests/unit/test_translations.py."""
FOLDERS = ("emulator", "compat", "migrations", "spark", "tests", "docs")

HEADING = re.compile(r"^#+ (\d+(?:\.\d+)?)\.? ", re.MULTILINE)
NUMBERS = r"§\d+(?:\.\d+)?(?:(?:, | and | to |, and )§?\d+(?:\.\d+)?)*"
CITATION = re.compile(rf"\b([a-z]+)\.md (?:{NUMBERS})")
WITHIN = re.compile(NUMBERS)
RULE = re.compile(r"\b([HXTD]-\d+)\b")
"""Rules of docs/protocol/aliyun.md that are cited only by id."""
ONLY_NUMBERS = re.compile(r'(?<= )"""(?:[\d\s.,]|and|or|to)+"""(?= |$)')
LINK = re.compile(r"\]\((?!http)([^)#\s]*)(?:#([^)\s]+))?\)")
CODE = re.compile(r"^ *```.*?^ *```$", re.DOTALL | re.MULTILINE)
TITLE = re.compile(r"^#+ (.+)$", re.MULTILINE)
UNKNOWN_SOURCE = re.compile(r"\bsheets?\b", re.IGNORECASE)
"""Former names of the sources of docs/protocol, which no reader can open."""

PAGES = {path.stem: path.read_text() for path in sorted(PROTOCOL.glob("*.md"))}
SECTIONS = {name: set(HEADING.findall(text)) for name, text in PAGES.items()}


def _texts(*folders: str) -> Iterator[tuple[Path, str]]:
    """Yield our files with their text, except docs/protocol."""
    paths = [path for folder in folders for kind in ("*.py", "*.md") for path in (ROOT / folder).rglob(kind)]
    for path in [*paths, *ROOT.glob("*.md")]:
        if PROTOCOL not in path.parents and path != Path(__file__) and "node_modules" not in path.parts:
            yield path.relative_to(ROOT), " ".join(path.read_text().split())


def _numbers(text: str) -> set[str]:
    return set(re.findall(r"\d+(?:\.\d+)?", text))


def test_every_cited_section_exists() -> None:
    wrong = [
        f"{path}: {match[0]}"
        for path, text in _texts(*FOLDERS)
        for match in CITATION.finditer(text)
        if not _numbers(match[0]) <= SECTIONS.get(match[1], set())
    ]
    assert not wrong


@pytest.mark.parametrize("name", PAGES)
def test_every_section_named_by_a_protocol_page_exists(name: str) -> None:
    others = CITATION.sub("", PAGES[name])
    missing = {number for match in WITHIN.findall(others) for number in _numbers(match)} - SECTIONS[name]
    assert not missing


def test_every_rule_named_by_the_code_exists() -> None:
    known = set(RULE.findall(PAGES["aliyun"]))
    wrong = {f"{path}: {rule}" for path, text in _texts("compat") for rule in RULE.findall(text)}
    assert {rule.rpartition(" ")[2] for rule in wrong} <= known, wrong


def test_citations_name_files_of_the_tree() -> None:
    found = [
        f"{path}: {text[max(match.start() - 40, 0) : match.end() + 20]}"
        for path, text in _texts(*FOLDERS)
        for match in UNKNOWN_SOURCE.finditer(text)
    ]
    assert not found


def test_docstrings_are_more_than_a_number() -> None:
    assert not [f"{path}: {match}" for path, text in _texts(*FOLDERS) for match in ONLY_NUMBERS.findall(text)]


def _anchors(page: Path) -> set[str]:
    """Return the anchors that GitHub and GitLab give a page's headings, only the first of each name."""
    titles = TITLE.findall(CODE.sub("", page.read_text()))
    texts = (re.sub(r"\[([^]]+)\]\([^)]*\)", r"\1", title).lower() for title in titles)
    return {re.sub(r"[^\w -]", "", text).strip().replace(" ", "-") for text in texts}


def _leads_somewhere(page: Path, target: str, anchor: str) -> bool:
    path = page.parent / target if target else page
    return path.exists() and (not anchor or anchor in _anchors(path))


def test_every_link_of_the_docs_has_a_target() -> None:
    wrong = [
        f"{page.relative_to(ROOT)}: {target}#{anchor}"
        for page in [*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md")]
        for target, anchor in LINK.findall(CODE.sub("", page.read_text()))
        if not _leads_somewhere(page, target, anchor)
    ]
    assert not wrong


def test_every_file_named_by_the_architecture_exists() -> None:
    text = CODE.sub("", (ROOT / "docs/architecture.md").read_text())
    named = re.findall(r"`(\w+(?:/\w+)+(?:\.py)?)`", text)
    assert named
    roots = (ROOT, ROOT / "emulator/mocketmq", ROOT / "spark/mocketmq_report")
    assert not [
        path
        for path in named
        if not any((root / f"{path}{end}").exists() for root in roots for end in ("", ".py"))
    ]


def test_prose_fits_into_125_columns() -> None:
    pages = [*(ROOT / "docs").rglob("*.md"), *(ROOT / name for name in PAGES_ABOVE)]
    assert not [
        f"{page.relative_to(ROOT)}: {line}"
        for page in pages
        if page.parent != PROTOCOL and CHINESE not in page.parents
        for line in CODE.sub("", page.read_text()).splitlines()
        if len(line) > 125 and not line.lstrip().startswith(("|", "![", "<"))
    ]
