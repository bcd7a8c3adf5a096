"""The page of a lab in a real Chromium: in both themes, on a phone, without a network."""

from pathlib import Path

import pytest

from mocketmq_report.lab.html import lab_html
from tests.support.chromium import needs_chromium, open_page
from tests.support.labs import sample_lab

CHARTS = 6


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
