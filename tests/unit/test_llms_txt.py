"""docs/llms.txt lists the documentation for agents, in the format of https://llmstxt.org."""

import re

from tests.support.llms_txt import DOCS, PAGE, page

TEXT = PAGE.read_text()
LINKS = re.findall(r"^- \[[^\]]+\]\(([^)]+)\)(?:: .+)?$", TEXT, re.MULTILINE)


def test_the_file_is_that_of_the_pages() -> None:
    assert page() == TEXT, "python -m tests.support.llms_txt writes it anew"


def test_it_has_a_title_a_summary_and_lists_of_links() -> None:
    title, _, summary, *lines = TEXT.splitlines()
    assert title == "# mocketmq"
    assert summary.startswith("> RocketMQ for test environments.")
    assert all(re.match(r"## \w|- \[|$", line) for line in lines)
    assert len(LINKS) == sum(line.startswith("-") for line in lines)


def test_no_link_is_dead() -> None:
    assert [link for link in LINKS if not (DOCS / link).is_file()] == []


def test_every_page_is_listed_once() -> None:
    pages = {str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md") if "zh-CN" not in path.parts}
    assert sorted(link for link in LINKS if not link.startswith("../")) == sorted(pages)
