"""The site of the documentation, as ``make site`` builds it: its search, its accessibility, its links."""

import asyncio
import re
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pytest

import mocketmq
from tests.support.browser import Faultless, running_browser, violations
from tests.support.chromium import needs_chromium
from tests.support.patience import PATIENCE_S

if TYPE_CHECKING:
    from playwright.async_api import Page

ROOT = Path(__file__).parents[2]
HTML = ROOT / "build" / "site" / "html"
PYTHON = ROOT / "build" / "site" / "venv" / "bin" / "python"
ACCEPTED = ("empty-table-header", "label-content-name-mismatch", "landmark-unique")
"""Tables without titles, which GitHub's Markdown requires; and the theme's labels of its menus."""

QUESTIONS = {
    "test that an order times out": "/#how-do-i-test-that-an-order-times-out",
    "connect from Spring": "/#how-do-i-connect-from-spring",
    "why is my consumer not receiving": "/#why-is-my-consumer-not-receiving-messages",
    "the consumer does not receive": "/errors/#the-consumer-does-not-receive-messages",
    "测试订单超时": "/zh-CN/#怎么测试订单超时",
    "怎么接入 Spring": "/zh-CN/#怎么接入-spring",
    "消费者收不到消息": "/zh-CN/errors/#消费者收不到消息",
}
"""What people type, and a section that must be among the first results."""
FIRST = 5
"""Number of results that people read."""
FOUND = """
() => {
    const found = [];
    const look = (root) => {
        for (const link of root === document ? [] : root.querySelectorAll("a[href]")) found.push(link.href);
        for (const each of root.querySelectorAll("*")) if (each.shadowRoot) look(each.shadowRoot);
    };
    look(document);
    return found;
}
"""
"""The links in shadow roots, where the theme shows what a search has found."""

pytestmark = [pytest.mark.interop, needs_chromium]


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of the interface
        pass


@contextmanager
def served() -> Iterator[str]:
    """Serve the folder of all versions; return the address of this version."""
    assert (HTML / "versions.json").is_file(), "make site builds it"
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=HTML)) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/{mocketmq.__version__}"
        finally:
            server.shutdown()
            thread.join()


@asynccontextmanager
async def opened(**options: Any) -> "AsyncIterator[tuple[Page, str]]":
    """Open a page that may ask for nothing of other hosts."""
    with served() as url:
        async with running_browser() as browser:
            context = await browser.new_context(**options)
            context.set_default_timeout(PATIENCE_S * 1_000)
            page = await context.new_page()
            faultless = Faultless(page, url.rpartition("/")[0])
            yield page, url
            assert faultless.found == []
            await context.close()


async def test_questions_are_found_by_search() -> None:
    async with opened() as (page, url):
        for question, section in QUESTIONS.items():
            await page.goto(f"{url}/")
            await page.wait_for_load_state("networkidle")
            await page.locator(".md-search__button").first.click()
            await page.locator("input[aria-label=Search]").press_sequentially(question)
            async with asyncio.timeout(PATIENCE_S):
                while url + section not in (await results(page))[:FIRST]:
                    await page.wait_for_timeout(50)


async def results(page: "Page") -> list[str]:
    """Return the addresses that the search shows, without the words to highlight."""
    links = [unquote(link) for link in await page.evaluate(FOUND)]
    return [re.sub(r"\?[^#]*", "", link) for link in links]


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_everybody_can_use_the_pages(scheme: str) -> None:
    async with opened(color_scheme=scheme) as (page, url):
        for path in ("/", "/errors/", "/settings/", "/zh-CN/", "/zh-CN/recipes/pytest/"):
            await page.goto(url + path)
            await page.wait_for_load_state("networkidle")
            found = [each for each in await violations(page) if not each.startswith(ACCEPTED)]
            assert found == [], path


def test_a_dead_link_fails_the_build(tmp_path: Path) -> None:
    for name in ("docs", "kits/site", "emulator/mocketmq/__init__.py", "README.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, tmp_path / name)
    for page in tmp_path.glob("docs/**/*.md"):
        page.unlink()
    for name in ("docs/errors.md", "docs/zh-CN/errors.md"):
        (tmp_path / name).write_text("# Errors\n\n[there](#errors), [nowhere](#no-such-section)\n")
    done = subprocess.run(
        [PYTHON, tmp_path / "kits/site/build.py"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "anchor does not exist" in done.stderr
    assert "no-such-section" in done.stderr


def test_the_first_address_leads_to_this_version() -> None:
    assert f'url={mocketmq.__version__}/"' in (HTML / "index.html").read_text()
