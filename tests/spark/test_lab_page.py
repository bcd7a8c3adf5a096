"""The page of a lab in a real Chromium: in both themes, on a phone, without a network."""

from pathlib import Path

import pytest

from mocketmq_report.lab.html import lab_html
from tests.support.chromium import needs_chromium, open_page
from tests.support.labs import sample_lab
from tests.support.page_texts import CHINESE, TEXTS, WORD

CHARTS = 6
DATA = ("delay-sync", "always", "/data", "RocketMQ V4_9_7", "wheel<img")
"""Names of the sample, and of a setting."""


@needs_chromium
async def test_the_page_is_read_in_chinese(tmp_path: Path) -> None:
    path = tmp_path / "lab.html"
    path.write_text(lab_html(sample_lab()))
    async with open_page() as page:
        await page.show(path, 1_180)
        await page.evaluate("document.getElementById('language').click()")
        texts = [text.strip() for text in await page.evaluate(TEXTS)]
        english = {text for text in texts if WORD.search(text) and not CHINESE.search(text)}
        assert {text for text in english if not text.startswith(DATA)} == set()


@needs_chromium
@pytest.mark.slow
async def test_all_charts_are_drawn_within_their_frames(tmp_path: Path) -> None:
    path = tmp_path / "lab.html"
    path.write_text(lab_html(sample_lab()))
    async with open_page() as page:
        for width in (2_560, 1_280, 390, 360):
            for dark in (False, True):
                page.said.clear()
                page.asked.clear()
                await page.show(path, width, dark=dark)
                assert page.said == []
                assert page.asked == [path.as_uri()]
                assert await page.evaluate("document.querySelectorAll('.chart svg').length") == CHARTS
                assert await page.evaluate("document.documentElement.scrollWidth") == width
                paper = await page.evaluate("getComputedStyle(document.body).backgroundColor")
                assert paper == ("rgb(20, 23, 26)" if dark else "rgb(255, 255, 255)")
