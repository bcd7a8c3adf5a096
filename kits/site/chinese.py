"""Chinese pages of a built site: the texts of the theme, and words for its search.

The theme has the texts of its search in English only, in its script. Its search finds words within Chinese
sentences if its index names the language, which the theme takes from the site, not from each page.
"""

import html
import re
import sys
from pathlib import Path

SCRIPT = re.compile(r"bundle\.(\w+)\.min\.js")
SEARCH = {
    'placeholder:"Search"': 'placeholder:"搜索"',
    '"aria-label":"Search"': '"aria-label":"搜索"',
    '"aria-label":"Close search"': '"aria-label":"关闭搜索"',
    '"aria-label":"Filters"': '"aria-label":"筛选"',
    '"aria-label":"Search results"': '"aria-label":"搜索结果"',
    'children:"Filters"': 'children:"筛选"',
    'children:"Tags"': 'children:"标签"',
    'children:"Use Up and Down arrow keys to move between tags. Press Space or Enter to toggle a tag."': (
        'children:"用上下方向键在标签之间移动，按空格或回车选择。"'
    ),
    '"Search is unavailable. Reload the page to try again."': '"搜索不可用，请刷新页面重试。"',
    '"No results"': '"没有找到"',
    '"Loading search\\u2026"': '"正在加载搜索…"',
    '`${new Intl.NumberFormat("en-US").format(i)} ${i===1?"result":"results"}`': (
        '`找到 ${new Intl.NumberFormat("zh-CN").format(i)} 个结果`'
    ),
}
"""What the script has, and the Chinese for it."""
LANGUAGES = {'"lang":["en"]': '"lang":["en","zh"]'}
"""Of the words in the search's index."""
PAGE = {
    "Dark mode": "深色",
    "Light mode": "浅色",
    "mocketmq on GitHub": "GitHub 上的 mocketmq",
    "Permanent link": "本节的链接",
}
"""Texts of zensical.toml and of its extensions, which are attributes of the pages."""


def in_chinese(site: Path) -> None:
    """Give a site's Chinese pages Chinese texts, and its search Chinese words. Exits if the theme changed."""
    index = site / "search.json"
    index.write_text(_replaced(index.read_text("utf-8"), LANGUAGES, index.name), "utf-8")
    [script] = (path for path in site.glob("assets/javascripts/*.js") if SCRIPT.fullmatch(path.name))
    chinese = script.with_name(SCRIPT.sub(r"bundle.\1.zh.min.js", script.name))
    chinese.write_text(_replaced(script.read_text("utf-8"), SEARCH, script.name), "utf-8")
    attributes = {f'="{html.escape(text)}"': f'="{better}"' for text, better in PAGE.items()}
    for page in (site / "zh-CN").rglob("*.html"):
        text = _replaced(page.read_text("utf-8"), attributes | {script.name: chinese.name}, str(page))
        page.write_text(text, "utf-8")


def _replaced(text: str, by: dict[str, str], name: str) -> str:
    for one, other in by.items():
        if one not in text:
            sys.exit(f"{name} has no {one}: the theme has changed, so mend kits/site/chinese.py")
        text = text.replace(one, other)
    return text
