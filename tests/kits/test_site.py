"""The site of the documentation, as ``make site`` builds it: its search, accessibility, links and versions.

It is served below ``/mocketmq/``, as by GitHub Pages.
"""

import asyncio
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import cache, partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urljoin, urlsplit

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
    "how to time a test's order out": "/#how-do-i-test-that-an-order-times-out",
    "test that an order times out": "/#how-do-i-test-that-an-order-times-out",
    "how to connect from Spring": "/#how-do-i-connect-from-spring",
    "connect from Spring": "/#how-do-i-connect-from-spring",
    "why is my consumer not receiving": "/#why-is-my-consumer-not-receiving-messages",
    "the consumer does not receive": "/errors/#the-consumer-does-not-receive-messages",
    "怎么测试订单超时": "/zh-CN/#怎么测试订单超时",
    "如何测试订单超时": "/zh-CN/#怎么测试订单超时",
    "测试订单超时": "/zh-CN/#怎么测试订单超时",
    "怎么接入 Spring": "/zh-CN/#怎么接入-spring",
    "如何接入 Spring": "/zh-CN/#怎么接入-spring",
    "接入 Spring": "/zh-CN/#怎么接入-spring",
    "为什么消费者收不到消息": "/zh-CN/#消费者为什么收不到消息",
    "消费者收不到消息": "/zh-CN/errors/#消费者收不到消息",
    "收不到消息": "/zh-CN/errors/#消费者收不到消息",
}
"""What people type, and the section that the search must show first."""
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
SPOKEN = """
() => {
    const found = [];
    const look = (root) => {
        for (const each of root.querySelectorAll("*")) {
            const text = each.childElementCount || each.localName === "style" ? "" : each.textContent;
            if (root !== document) found.push(each.placeholder, each.ariaLabel, text);
            if (each.shadowRoot) look(each.shadowRoot);
        }
    };
    look(document);
    return found.filter(Boolean);
}
"""
"""All that is read in shadow roots."""

pytestmark = [pytest.mark.interop, needs_chromium]


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of the interface
        pass


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve the folder of all versions; return its address."""
    assert (folder / "versions.json").is_file(), "make site builds it"
    with tempfile.TemporaryDirectory() as root:
        (Path(root) / "mocketmq").symlink_to(folder)
        with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=root)) as server:
            thread = Thread(target=server.serve_forever)
            thread.start()
            try:
                yield f"http://127.0.0.1:{server.server_port}/mocketmq"
            finally:
                server.shutdown()
                thread.join()


@asynccontextmanager
async def opened(folder: Path = HTML, **options: Any) -> "AsyncIterator[tuple[Page, str]]":
    """Open a page that may ask for nothing of other hosts. Also return the address of this version."""
    with served(folder) as url:
        async with running_browser() as browser:
            context = await browser.new_context(**options)
            context.set_default_timeout(PATIENCE_S * 1_000)
            page = await context.new_page()
            faultless = Faultless(page, url)
            yield page, f"{url}/{mocketmq.__version__}"
            assert faultless.found == []
            await context.close()


async def test_questions_are_found_by_search() -> None:
    async with opened() as (page, url):
        for question, section in QUESTIONS.items():
            await page.goto(f"{url}/")
            await search(page, question)
            async with asyncio.timeout(PATIENCE_S):
                while (await results(page))[:1] != [url + section]:
                    await page.wait_for_timeout(50)


async def search(page: "Page", question: str) -> None:
    await page.wait_for_load_state("networkidle")
    await page.locator(".md-search__button").first.click()
    await page.locator("input[role=combobox]").press_sequentially(question)


@pytest.mark.parametrize(
    ("path", "language", "texts"),
    [
        ("/", "en", {"Search", "Close search", "Search results", "No results"}),
        ("/zh-CN/errors/", "zh-CN", {"搜索", "关闭搜索", "搜索结果", "没有找到"}),
    ],
)
async def test_the_search_speaks_the_language_of_the_page(path: str, language: str, texts: set[str]) -> None:
    async with opened() as (page, url):
        await page.goto(url + path)
        assert await page.get_attribute("html", "lang") == language
        await search(page, "qqqqqqqqqqqqqqqq")
        found: set[str] = set()
        async with asyncio.timeout(PATIENCE_S):
            while not texts <= found:
                await page.wait_for_timeout(50)
                found = set(await page.evaluate(SPOKEN))
        of_english = {text for text in found if re.search("[a-z]{3}", text)}
        assert language == "en" or of_english == set()


async def test_chinese_pages_have_the_texts_of_the_theme_in_chinese() -> None:
    async with opened(viewport={"width": 1_280, "height": 900}) as (page, url):
        await page.goto(f"{url}/zh-CN/errors/")
        await page.wait_for_load_state("networkidle")
        assert (await page.inner_text(".md-skip")).strip() == "跳到正文"
        named = "[...document.querySelectorAll('[aria-label], [title]')]"
        texts = {*await page.evaluate(f"{named}.flatMap((one) => [one.ariaLabel || '', one.title])")}
        assert {"目录", "深色", "选择语言", "GitHub 上的 mocketmq"} <= texts
        assert {text for text in texts if re.search("[a-z]{4}", text.replace("mocketmq", ""))} == set()


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


class Targets(HTMLParser):
    """Collects the links and the anchors of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002
        for name, value in attrs:
            if name == "id" and value:
                self.anchors.add(value)
            elif name in ("href", "src") and value:
                self.links.append(value)
            elif name == "content" and value and "url=" in value:
                self.links.append(value.partition("url=")[2])


@cache
def targets(page: Path) -> Targets:
    return Targets(page.read_text("utf-8"))


def dead_links(folder: Path) -> Iterator[str]:
    """Yield the links of a folder of versions, served below ``/mocketmq/``, that lead nowhere."""
    for page in folder.rglob("*.html"):
        if page.name == "404.html":
            continue
        here = f"http://site/mocketmq/{page.relative_to(folder).as_posix()}"
        for link in targets(page).links:
            place = urlsplit(urljoin(here, link))
            if place.netloc != "site" or place.scheme != "http":
                continue
            path = unquote(place.path)
            file = folder / path.removeprefix("/mocketmq/")
            file = file / "index.html" if path.endswith("/") else file
            if not path.startswith("/mocketmq/") or not file.is_file():
                yield f"{here}: {link}"
            elif file.suffix == ".html" and unquote(place.fragment) not in {"", *targets(file).anchors}:
                yield f"{here}: {link}: no such anchor"


def test_every_link_leads_somewhere_below_the_path_of_the_site() -> None:
    assert len([*HTML.rglob("*.html")]) > 80
    assert [*dead_links(HTML)] == []


def test_a_dead_link_of_the_built_site_is_found(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text(
        '<a href="there/"></a><a href="/elsewhere/"></a><a href="#no"></a><a href="">'
    )
    assert len([*dead_links(tmp_path)]) == 3


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Publish two versions from a copy of the tree, as the workflow does; return the published folder."""
    scratch = tmp_path_factory.mktemp("published")
    work, pages, site = scratch / "work", scratch / "pages.git", scratch / "site"
    for name in git(ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0"):
        if name and (ROOT / name).is_file():
            (work / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, work / name)
    git(scratch, "init", "--quiet", "--bare", pages)
    git(work, "init", "--quiet")
    git(work, "remote", "add", "origin", pages.as_uri())
    said = [publish(work)]
    version = work / "emulator/mocketmq/__init__.py"
    text = version.read_text("utf-8").replace(f'"{mocketmq.__version__}"', '"99.0.0"')
    version.write_text(text, "utf-8")
    said += [publish(work), publish(work)]
    assert said == [*["pushed to the branch gh-pages"] * 2, "the published site is the same"]
    git(scratch, "clone", "--quiet", "--branch", "gh-pages", pages, site)
    return site


def git(folder: Path, *arguments: str | Path) -> str:
    command = ["git", *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout


def publish(work: Path) -> str:
    """Return the last line that the program writes."""
    who = {f"GIT_{one}_{what}": "site" for one in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    program = [PYTHON, work / "kits/site/publish.py"]
    done = subprocess.run(program, capture_output=True, text=True, check=False, env={**os.environ, **who})
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


async def test_versions_are_published_side_by_side(published: Path) -> None:
    assert [*dead_links(published)] == []
    async with opened(published, viewport={"width": 1_280, "height": 900}) as (page, url):
        root = url.rpartition("/")[0]
        await page.goto(f"{root}/")
        await page.wait_for_url(f"{root}/99.0.0/")
        versions = page.locator(".md-version")
        await versions.locator("button").hover(force=True)  # the list that opens covers it
        await versions.get_by_role("link", name=mocketmq.__version__).click()
        await page.wait_for_url(f"{url}/**")
        await search(page, "connect from Spring")
        async with asyncio.timeout(PATIENCE_S):
            while f"{url}/#how-do-i-connect-from-spring" not in await results(page):
                await page.wait_for_timeout(50)
