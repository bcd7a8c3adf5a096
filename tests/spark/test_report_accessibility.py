"""Pages of reports and labs for everybody: what axe finds, in both languages and themes, at three widths."""

from pathlib import Path
from typing import Literal

import pytest
from msgspec.structs import replace

from mocketmq_report.lab.html import lab_html
from mocketmq_report.report.html import html
from tests.spark.test_report_language import told_report
from tests.support.browser import overflow, running_browser, violations
from tests.support.chromium import needs_chromium
from tests.support.labs import sample_lab
from tests.support.reports import sample_comparison, sample_limits, sample_report


@needs_chromium
@pytest.mark.parametrize(
    ("width", "scheme", "locale"),
    [
        (1_280, "light", "zh-CN"),
        pytest.param(390, "light", "en", marks=pytest.mark.slow),
        pytest.param(390, "dark", "zh-CN", marks=pytest.mark.slow),
        pytest.param(2_560, "dark", "zh-CN", marks=pytest.mark.slow),
    ],
)
async def test_everybody_can_read_reports_and_labs(
    tmp_path: Path, width: int, scheme: Literal["light", "dark"], locale: str
) -> None:
    report = sample_report(comparison=sample_comparison())
    told = told_report()
    topics = [replace(told.lateness[0], dimension="topic", name=f"topic-{one}") for one in range(40)]
    pages = {
        "report": html(report, sample_limits()),
        "bad-times": html(replace(told, lateness=[*told.lateness, *topics], comparison=None)),
        "lab": lab_html(sample_lab()),
    }
    async with running_browser() as browser:
        context = await browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, locale=locale
        )
        page = await context.new_page()
        for name, text in pages.items():
            (tmp_path / f"{name}.html").write_text(text)
            await page.goto((tmp_path / f"{name}.html").as_uri())
            assert (await page.get_attribute("html", "lang") or "").startswith(locale)
            for each in await page.locator("section > details").all():
                await each.evaluate("(one) => { one.open = true; }")
            assert (name, await violations(page), await overflow(page)) == (name, [], 0)
        await context.close()
