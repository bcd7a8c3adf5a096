"""Compares a page in Chinese with its English original, block by block: all but the words must be the same.

A block is a heading, a paragraph, an item of a list, a row of a table or a code block. Two blocks match if
they have the same kind, numbers, inline code and links, and, for code blocks, the same code apart from
comments.
"""

import re
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

ROOT = Path(__file__).parents[2]
CHINESE = "docs/zh-CN"

_FENCE = re.compile(r" *```(\w*)$")
_HEADING = re.compile(r"(#+) ")
_STARTS = re.compile(r"\||!\[|<(?!http)")
_ITEM = re.compile(r" *(?:-|\d+\.) ")
_LINK = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]*)\)")
_PICTURE = re.compile(r'\b(?:src|srcset)="([^"]*)"')
_CODE = re.compile(r"`([^`]+)`")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_TAG = re.compile(r"</?\w+>")
_HASH = re.compile(r"(?:^|(?<=\s))#.*$", re.MULTILINE)
_SLASHES = re.compile(r"(?:^|(?<=\s))//[^\n]*|/\*.*?\*/", re.DOTALL)
_COMMENTS = {
    **dict.fromkeys(("sh", "console", "python", "toml", "yaml", "ini"), _HASH),
    **dict.fromkeys(("java", "go", "js", "rust"), _SLASHES),
    "xml": re.compile(r"<!--.*?-->", re.DOTALL),
}


class PageBlock(NamedTuple):
    """A block of a page. ``kind`` has a heading's level and a code block's language."""

    line: int
    kind: str
    text: str


def chinese_page(english: str) -> str:
    """Return the path of the Chinese page of an English one."""
    return "README.zh-CN.md" if english == "README.md" else english.replace("docs", CHINESE, 1)


def blocks(text: str) -> Iterator[PageBlock]:
    """Yield the blocks of a page. Lines of wrapped prose are joined by a space."""
    begun: PageBlock | None = None
    is_code = False
    for number, line in enumerate(text.splitlines(), 1):
        if is_code:
            assert begun is not None
            if line.strip() == "```":
                yield begun
                begun, is_code = None, False
            else:
                begun = begun._replace(text=f"{begun.text}{line}\n")
            continue
        opened, heading = _FENCE.match(line), _HEADING.match(line)
        starts = opened or heading or _ITEM.match(line) or _STARTS.match(line)
        if begun and (starts or not line.strip()):
            yield begun
            begun = None
        if opened:
            begun, is_code = PageBlock(number, f"code {opened[1]}", ""), True
        elif heading:
            yield PageBlock(number, f"heading {len(heading[1])}", line)
        elif line.startswith("|"):
            yield PageBlock(number, "row of a table", line)
        elif line.startswith("<!--"):
            yield PageBlock(number, "mark", line)
        elif begun:
            begun = begun._replace(text=f"{begun.text} {line.strip()}")
        elif line.strip():
            begun = PageBlock(number, "item" if _ITEM.match(line) else "paragraph", line)
    if begun:
        yield begun._replace(kind="code block without an end") if is_code else begun


def anchor(title: str) -> str:
    """Return the anchor that GitHub gives a heading."""
    plain = _LINK.sub(r"\1", title.lstrip("#").strip()).lower()
    return re.sub(r"[^\w -]", "", plain).replace(" ", "-")


def read(page: str) -> str:
    """Return the text of a page of the tree."""
    return (ROOT / page).read_text("utf-8")


class Translation:
    """An English page and its Chinese one. ``pages`` are all English pages that have a Chinese one.

    ``apart`` are anchors of English sections that a program writes. The Chinese page has the heading and a
    paragraph that links to the English section.
    """

    def __init__(self, english: str, pages: tuple[str, ...], apart: frozenset[str] = frozenset()) -> None:
        self.english = english
        self.chinese = chinese_page(english)
        self._originals = {chinese_page(page): page for page in pages}
        self._apart = apart

    def differences(self, english: str | None = None, chinese: str | None = None) -> Iterator[str]:
        """Yield what differs between the texts, by default the tree's, until blocks no longer pair."""
        ours = [*self._kept(blocks(read(self.english) if english is None else english))]
        theirs = [*blocks(read(self.chinese) if chinese is None else chinese)]
        for one, other in zip_longest(ours, theirs):
            if one is None or other is None or one.kind != other.kind:
                yield f"{_place(self.english, one)}, but {_place(self.chinese, other)}"
                return
            for what, mine, its in self._facts(one, other):
                if mine != its:
                    yield (
                        f"{self.english}:{one.line} and {self.chinese}:{other.line} differ in {what}:"
                        f" only in English {_shown(mine, its)}, only in Chinese {_shown(its, mine)}"
                    )

    def _kept(self, found: Iterator[PageBlock]) -> Iterator[PageBlock]:
        """Yield the English blocks, with a link in place of what is below the headings apart."""
        is_apart = False
        for block in found:
            if block.kind == "heading 2":
                title = anchor(block.text)
                is_apart = title in self._apart
                yield block
                if is_apart:
                    yield PageBlock(block.line, "paragraph", f"[]({Path(self.english).name}#{title})")
            elif not is_apart:
                yield block

    def _facts(self, one: PageBlock, other: PageBlock) -> Iterator[tuple[str, set[str], set[str]]]:
        if one.kind.startswith("code"):
            language = one.kind.removeprefix("code ")
            yield "code", set(_code(language, one.text)), set(_code(language, other.text))
            yield "numbers", set(_NUMBER.findall(one.text)), set(_NUMBER.findall(other.text))
            return
        if one.kind == "mark":
            yield "marks", {one.text}, {other.text}
            return
        yield "inline code", set(_CODE.findall(one.text)), set(_CODE.findall(other.text))
        yield "numbers", _numbers(one.text), _numbers(other.text)
        yield "links", self._links(self.english, one.text), self._links(self.chinese, other.text)

    def _links(self, page: str, text: str) -> set[str]:
        """Return the targets of links and pictures, those of Chinese pages under their English names."""
        plain = _CODE.sub("", text)
        targets = [*(target for _, target in _LINK.findall(plain)), *_PICTURE.findall(plain)]
        return {self._target(page, unquote(target)) for target in targets}

    def _target(self, page: str, target: str) -> str:
        if "://" in target:
            return target
        path, _, heading = target.partition("#")
        found = str(((ROOT / page).parent / path).resolve().relative_to(ROOT)) if path else page
        if {page, found} == {self.english, self.chinese} and not heading:
            return "the page in the other language"
        original = self._originals.get(found, found.replace("docs/images/zh-CN/", "docs/images/"))
        if page == self.chinese and found in self._originals.values() and not self._is_apart(found, heading):
            return f"{found} in English, although it has a Chinese page"
        if heading and original != found:
            titles = [anchor(each.text) for each in blocks(read(found)) if each.kind.startswith("heading")]
            ours = [anchor(each.text) for each in blocks(read(original)) if each.kind.startswith("heading")]
            heading = dict(zip(titles, ours, strict=False)).get(heading, f"{heading}, which is no heading")
        return f"{original}#{heading}" if heading else original

    def _is_apart(self, found: str, heading: str) -> bool:
        return found == self.english and heading in self._apart


def _code(language: str, text: str) -> list[str]:
    comments = _COMMENTS.get(language)
    plain = comments.sub("", text) if comments else text
    return [f"{number}: {line.rstrip()}" for number, line in enumerate(plain.splitlines()) if line.strip()]


def _numbers(text: str) -> set[str]:
    return set(_NUMBER.findall(_TAG.sub("", _CODE.sub("", _LINK.sub(r"\1", text)))))


def _shown(some: set[str], others: set[str]) -> str:
    return ", ".join(map(repr, sorted(some - others)[:3])) or "nothing"


def _place(page: str, block: PageBlock | None) -> str:
    return f"{page}:{block.line} is a {block.kind}: {block.text[:60]!r}" if block else f"{page} has ended"
