"""The Chinese pages follow the English ones, and are set as Chinese is set."""

import os
import re
from pathlib import Path

import pytest
import yaml

from tests.support.translations import CHINESE, ROOT, Translation, blocks, chinese_page, read

PAGES = (
    "README.md",
    "docs/access-control.md",
    "docs/aliyun.md",
    "docs/brokers-and-clients.md",
    "docs/clients.md",
    "docs/errors.md",
    "docs/expectations.md",
    "docs/faults.md",
    "docs/install.md",
    "docs/instead-of.md",
    "docs/kits.md",
    "docs/lateness.md",
    "docs/lite-topics.md",
    "docs/messages.md",
    "docs/recipes/camel.md",
    "docs/recipes/ci.md",
    "docs/recipes/compose.md",
    "docs/recipes/go.md",
    "docs/recipes/instead-of-rocketmq.md",
    "docs/recipes/junit5.md",
    "docs/recipes/kubernetes.md",
    "docs/recipes/node.md",
    "docs/recipes/pytest.md",
    "docs/recipes/spring-cloud-stream.md",
    "docs/settings.md",
)
APART = {"docs/faults.md": frozenset({"what-applications-see"})}
"""Sections that a program writes, by page: their anchors in English."""

HAN = "[\u3400-\u9fff]"
LATIN = "[A-Za-z0-9`]"
NO_SPACE = re.compile(f"{HAN}{LATIN}|{LATIN}{HAN}")
HALF_WIDTH = re.compile(f"{HAN}[,;:!?()]|[,;:!?()]{HAN}|{HAN}\\.(?=\\s|$)")
SPACE_BESIDE = re.compile(r" [，。；：！？、（）《》「」]|[，。；：！？、（）《》「」] (?!$)")
LINK = re.compile(r"!?\[((?:[^\[\]]|\[[^\]]*\])*)\]\([^)]*\)")


def translation(page: str) -> Translation:
    return Translation(page, PAGES, APART.get(page, frozenset()))


@pytest.mark.parametrize("page", PAGES)
def test_both_languages_say_the_same(page: str) -> None:
    assert [*translation(page).differences()] == []


@pytest.mark.parametrize("page", PAGES)
def test_both_pages_begin_with_a_link_to_the_other(page: str) -> None:
    chinese = chinese_page(page)
    for one, other, words in ((page, chinese, "简体中文"), (chinese, page, "English")):
        target = os.path.relpath(ROOT / other, (ROOT / one).parent)
        assert read(one).splitlines()[2] == f"[{words}]({target})"


def test_every_chinese_page_is_compared() -> None:
    found = {str(path.relative_to(ROOT)) for path in (ROOT / CHINESE).rglob("*.md")}
    assert found | {"README.zh-CN.md"} == set(map(chinese_page, PAGES))


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("clock advance", "clock to", "differ in code: only in"),
        ("10911", "10912", "differ in numbers: only in"),
        ("`--host`", "`--hosts`", "differ in inline code: only in"),
        ("](faults.md)", "](aliyun.md)", "differ in links: only in"),
        ("lab.png", "kit.png", "differ in links: only in"),
        ("## The", "### The", "is a heading 3"),
        ("```\n", "```\n\nOne paragraph more.\n", "has ended"),
        ("<!-- test: it -->\n", "", "is a code sh"),
        ("# first", "# second", None),
        ("wait", "listen", None),
    ],
)
@pytest.mark.parametrize("is_english", [True, False])
def test_a_change_of_one_side_is_found(old: str, new: str, found: str | None, is_english: bool) -> None:
    text = (
        "# Page\n\nClients wait at port 10911, see `--host` and [faults](faults.md).\n\n"
        '<img src="https://mocketmq.example/lab.png" alt="The lab">\n\n'
        "## The clock\n\n<!-- test: it -->\n```sh\nmocketmq clock advance 2h  # first\n```\n"
    )
    changed = text[::-1].replace(old[::-1], new[::-1], 1)[::-1]
    assert changed != text
    sides = (changed, text) if is_english else (text, changed)
    differences = [*translation("docs/lateness.md").differences(*sides)]
    if found is None:
        assert differences == []
    else:
        [difference] = differences
        assert found in difference
        assert "docs/lateness.md" in difference
        assert "docs/zh-CN/lateness.md" in difference


FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("[0-9]-*.yml"))


def shape(form: Path) -> list[tuple[object, ...]]:
    """Return an issue form without its words."""
    content = yaml.safe_load(form.read_text("utf-8"))
    fields = [
        (each["type"], each["id"], each["validations"], *each["attributes"]) for each in content["body"]
    ]
    return [tuple(content["labels"]), *fields]


def test_issue_forms_ask_the_same_in_both_languages() -> None:
    english = [form for form in FORMS if ".zh-CN" not in form.name]
    assert [form.name for form in FORMS] == sorted(
        name for form in english for name in (form.name, f"{form.stem}.zh-CN.yml")
    )
    for form in english:
        chinese = form.with_name(f"{form.stem}.zh-CN.yml")
        assert shape(form) == shape(chinese), chinese.name
        content = yaml.safe_load(chinese.read_text("utf-8"))
        read_first = [content["name"], content["description"]]
        asked = [each["attributes"][text] for each in content["body"] for text in ("label", "description")]
        assert [text for text in (*read_first, *asked) if not re.search(HAN, text)] == []


@pytest.mark.parametrize("page", [chinese_page(page) for page in PAGES])
def test_chinese_is_set_as_chinese(page: str) -> None:
    """Latin words stand between spaces, and Chinese takes full-width punctuation.

    A paragraph is one line, because a line break between two Chinese characters would be shown as a space.
    """
    wrong = []
    for block in blocks(read(page)):
        if block.kind.startswith("code") or block.kind == "mark":
            continue
        shown = LINK.sub(r"\1", block.text)
        text = re.sub(r" *\| *", "|", re.sub(r"`[^`]*`", "`", shown))
        for rule in (NO_SPACE, HALF_WIDTH, SPACE_BESIDE):
            wrong += [
                f"{page}:{block.line}: {text[max(0, match.start() - 12) : match.end() + 12]}"
                for match in rule.finditer(text)
            ]
    lines = read(page).splitlines()
    wrong += [
        f"{page}:{number}: a paragraph goes on: {line[:40]}"
        for number, (before, line) in enumerate(zip(_prose(lines), _prose(lines[1:]), strict=False), 2)
        if re.search(HAN, before) and re.match(f" *({HAN}|[A-Za-z`\\[(])", line)
    ]
    assert not wrong


REJECTED = re.compile(
    "末位点|起始位点|停住|时间不走|Token 不对|扣住|按存储的样子|无结论|读不了|别的系统|"
    "扎堆|一堆|顺序不可能|这样的秒数|受注入的故障|消息 以上"
)
"""Words that Chinese engineers do not write, for which RocketMQ's docs or engineers have others."""
CATALOGUES = (
    "emulator/mocketmq/console/zh.json",
    "spark/mocketmq_report/report/zh.json",
    "spark/mocketmq_report/lab/zh.json",
)


@pytest.mark.parametrize("page", [*map(chinese_page, PAGES), *CATALOGUES])
def test_chinese_uses_the_words_of_engineers(page: str) -> None:
    assert REJECTED.findall((ROOT / page).read_text("utf-8")) == []


def _prose(lines: list[str]) -> list[str]:
    """Return the lines with code blocks, headings and tables empty."""
    inside, kept = False, []
    for line in lines:
        fence = line.lstrip().startswith("```")
        inside = inside != fence
        kept.append("" if inside or fence or line.startswith(("#", "|", "<")) else line)
    return kept
