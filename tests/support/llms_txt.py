"""Generate docs/llms.txt, which lists the documentation for agents: ``python -m tests.support.llms_txt``.

The format is that of https://llmstxt.org: a title, a summary, and lists of links. The sections are those of
the README's "Where to go on". Other pages follow under "Optional", which agents may skip.
"""

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGE = DOCS / "llms.txt"

_SECTION = re.compile(r"^- \*\*(.+?):?\*\*(.*?)(?=^- \*\*|\Z)", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+\.md)\)")
_MARKED = re.compile(r"\[([^\]]*)\]\([^)]*\)")
_SENTENCE = re.compile(r".*?(?:\.(?=\s)|[.:]?$)")
_START = ("install.md", "clients.md", "kits.md", "python.md")
"""Pages for which the README has sections of its own."""
_HIDDEN = ("zh-CN", "images")


def page() -> str:
    """Return the text of the file."""
    readme = (ROOT / "README.md").read_text()
    summary = " ".join(readme.split("\n\n")[2].split()).replace("**", "")
    index = readme.partition("## Where to go on\n")[2]
    sections = {"Begin": [DOCS / name for name in _START]}
    for title, text in _SECTION.findall(index):
        sections[title] = [ROOT / path for path in _LINK.findall(text)]
    listed = {path for paths in sections.values() for path in paths}
    sections["Optional"] = [path for path in _all_pages() if path not in listed]
    blocks = [f"# mocketmq\n\n> {summary}"]
    for title, paths in sections.items():
        blocks.append(f"## {title}\n\n" + "\n".join(map(_item, paths)))
    return "\n\n".join(blocks) + "\n"


def _all_pages() -> Iterator[Path]:
    for path in sorted(DOCS.rglob("*.md")):
        if path.relative_to(DOCS).parts[0] not in _HIDDEN:
            yield path


def _item(path: Path) -> str:
    """Link to a page with its title and its first sentence."""
    title, *paragraphs = path.read_text().split("\n\n")
    prose = (" ".join(text.split()) for text in paragraphs if re.match(r"(?!```)[\w`]", text))
    first = _SENTENCE.match(_MARKED.sub(r"\1", next(prose, "")))
    note = f": {first[0].rstrip(':')}" if first else ""
    return f"- [{title.removeprefix('# ')}]({_relative(path)}){note}"


def _relative(path: Path) -> str:
    return str(path.relative_to(DOCS)) if DOCS in path.parents else f"../{path.relative_to(ROOT)}"


if __name__ == "__main__":
    PAGE.write_text(page())
