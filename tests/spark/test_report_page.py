"""The page of a report in a real Chromium: in both themes, on a phone, on paper, without a network."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from msgspec.structs import replace

from mocketmq_report import document as d
from mocketmq_report import figures
from mocketmq_report.report.html import html
from tests.support.chromium import NAMES, Page, find_chromium, open_page
from tests.support.page_texts import CHINESE, TEXTS, WORD
from tests.support.patience import HANGING_S
from tests.support.reports import sample_comparison, sample_limits, sample_report

pytestmark = [
    pytest.mark.skipif(
        find_chromium() is None, reason=f"no Chromium on the PATH: none of {', '.join(NAMES)}"
    ),
    pytest.mark.asyncio(loop_scope="module"),
]

CHARTS = 8


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def page() -> AsyncIterator[Page]:
    async with open_page() as page:
        yield page


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(html(sample_report(comparison=sample_comparison()), sample_limits()))
    return path


async def colour(page: Page, of: str, which: str = "color") -> Any:
    return await page.evaluate(f"getComputedStyle(document.querySelector({json.dumps(of)}))[{which!r}]")


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [2_560, 1_280, 390, 360])
async def test_all_charts_are_drawn_within_their_frames(
    page: Page, report: Path, width: int, dark: bool
) -> None:
    page.said.clear()
    page.asked.clear()
    await page.show(report, width, dark=dark)
    assert page.said == []
    assert page.asked == [report.as_uri()]
    drawn = "[...document.querySelectorAll('.chart svg')].map((svg) => svg.getBoundingClientRect().width)"
    widths = await page.evaluate(drawn)
    assert len(widths) == CHARTS
    rooms = await page.evaluate("[...document.querySelectorAll('.chart')].map((chart) => chart.clientWidth)")
    for room, each in zip(rooms, widths, strict=True):
        assert room * 0.9 < each <= room + 1, (rooms, widths)
    tops = await page.evaluate(
        "new Set([...document.querySelectorAll('figure')].map((one) => one.getBoundingClientRect().top)).size"
    )
    assert (tops < CHARTS) == (width > 2_000)  # two columns use a wide screen
    assert await page.evaluate("document.documentElement.scrollWidth") == width
    marks = "[...document.querySelectorAll('.chart svg')].map((svg) => svg.querySelectorAll('.mark').length)"
    assert min(await page.evaluate(marks)) >= 2
    assert await colour(page, "body", "backgroundColor") == (
        "rgb(20, 23, 26)" if dark else "rgb(255, 255, 255)"
    )


async def test_cards_of_a_phone_name_their_group(page: Page, report: Path) -> None:
    await page.show(report, 390)
    labels = await page.evaluate(
        "[...document.querySelectorAll('#groups tbody tr:first-child > :first-child')]"
        ".map((one) => getComputedStyle(one, '::before').content)"
    )
    assert labels == ['"scheme"', '"profile"', '"topic"', '"run"']


async def test_open_charts_follow_the_theme_of_the_system(page: Page, report: Path) -> None:
    await page.show(report, 1_000)
    label = ".chart svg .tick"
    light = await colour(page, label, "fill")
    await page.prefer("dark")
    dark = await colour(page, label, "fill")
    assert light != dark
    assert (light, dark) == ("rgb(92, 101, 109)", "rgb(154, 164, 173)")


async def test_a_reader_can_choose_the_theme(page: Page, report: Path) -> None:
    await page.show(report, 1_000, dark=True)
    shown = []
    for _ in range(2):
        await page.evaluate("document.getElementById('theme').click()")
        shown.append(await colour(page, "body", "backgroundColor"))
    assert shown == ["rgb(255, 255, 255)", "rgb(20, 23, 26)"]


async def test_paper_is_white_and_has_whole_tables_and_charts(page: Page, report: Path) -> None:
    await page.show(report, 1_280, dark=True)
    await page.print_preview(690)
    assert await colour(page, "body", "backgroundColor") == "rgb(255, 255, 255)"
    cut = "[...document.querySelectorAll('.scroll')].filter((each) => each.scrollWidth > each.clientWidth)"
    assert await page.evaluate(f"{cut}.map((each) => each.ariaLabel)") == []
    charts = "[...document.querySelectorAll('.chart svg')].map((svg) => svg.getBoundingClientRect().width)"
    assert all(680 < width <= 690 for width in await page.evaluate(charts))
    assert (await page.pdf()).startswith(b"%PDF-")


DATA = ("Broker", "Topic", "profile", "full", "real", "mocketmq", "nightly", "rocketmq4", "runner-7")
"""What Chinese engineers write in Latin letters, and the sample's own names."""


async def test_the_page_is_read_in_chinese_and_in_english(page: Page, report: Path) -> None:
    await page.show(report, 1_180)
    language = "document.getElementById('language')"
    written = await page.evaluate(TEXTS)
    assert await page.evaluate(f"[document.documentElement.lang, {language}.textContent]") == ["en", "中文"]
    await page.evaluate(f"{language}.click()")
    assert await page.evaluate(f"[document.documentElement.lang, {language}.textContent]") == [
        "zh-CN",
        "English",
    ]
    texts = await page.evaluate(TEXTS)
    english = [text for text in texts if WORD.search(text) and not CHINESE.search(text)]
    assert [text for text in english if not text.strip().startswith(DATA)] == []
    assert "✕ 未通过：9 条阈值中的 5 条、4 条规则中的 2 条" in map(str.strip, texts)
    drawn = await page.evaluate(
        "[...document.querySelectorAll('#chart-time .title')].map((one) => one.textContent)"
    )
    assert drawn == ["延误"]
    await page.evaluate(f"{language}.click()")
    assert await page.evaluate(TEXTS) == written
    assert await page.evaluate("document.documentElement.lang") == "en"


async def test_resized_chart_is_redrawn(page: Page, report: Path) -> None:
    await page.show(report, 1_280)
    await page.resize(600)
    width = "document.querySelector('.chart svg').getBoundingClientRect().width"
    look = f"const look = () => {width} <= 600 ? done() : requestAnimationFrame(look)"
    await asyncio.wait_for(page.evaluate(f"new Promise((done) => {{ {look}; look(); }})"), HANGING_S)


async def test_a_level_can_be_chosen(page: Page, report: Path) -> None:
    await page.show(report, 1_280)
    line = "document.querySelector('#chart-spectrum .chart svg').innerHTML"
    before = await page.evaluate(line)
    await page.evaluate(
        """(() => {
            const select = document.querySelector("#chart-spectrum select");
            select.value = "level 17 (1h)";
            select.dispatchEvent(new Event("input"));
            select.dispatchEvent(new Event("change"));
        })()"""
    )
    after = await page.evaluate(
        f"new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done({line}))))"
    )
    assert after != before


async def test_a_tooltip_describes_the_point_under_the_pointer(page: Page, report: Path) -> None:
    await page.show(report, 1_280)
    shown = await page.evaluate(
        """(() => {
            const bar = document.querySelector("#chart-buckets svg .mark");
            bar.scrollIntoView({block: "center"});
            const {left, top, width, height} = bar.getBoundingClientRect();
            const at = {clientX: left + width / 2, clientY: top + height / 2, bubbles: true};
            for (const kind of ["pointerover", "mouseover", "pointermove", "mousemove"])
                bar.dispatchEvent(new PointerEvent(kind, at));
            const tip = document.getElementById("tip");
            return tip.hidden ? null : tip.innerText;
        })()"""
    )
    assert shown is not None
    assert shown.split("\n")[0::2] == ["of", "lateness", "deliveries", "share"]


DURATIONS_US = [
    *(0, 0.4, 1, -3, 12, 99.96, 870, 999, 999.5, 1_000, 1_049, 1_050, 12_345, 99_950, 123_456, 999_499),
    *(999_500, 1_000_000, -1_234_567, 59_949_999, 59_950_001, 60_000_000, 61_500_001, 3_600_000_000),
    *(5_999_999_999, 6_000_000_000, 6_030_000_001, 90_061_000_000, -7_200_000_000),
]


async def test_charts_write_durations_as_tables_do(page: Page, report: Path) -> None:
    await page.show(report, 1_000)
    written = await page.evaluate(f"{DURATIONS_US}.map(duration)")
    assert written == [figures.duration(us) for us in DURATIONS_US]
    assert await page.evaluate("duration(null)") == figures.duration(None)


async def test_hostile_names_are_escaped(page: Page, tmp_path: Path) -> None:
    hostile = "</script><img src=x onerror=alert(1)>\u202e\x00"
    report = sample_report()
    comparison = sample_comparison()
    sides = [comparison.sides[0], replace(comparison.sides[1], name=hostile)]
    marker = replace(report.timeline.markers[0], run=hostile)
    report = replace(
        report,
        header=replace(report.header, title=hostile),
        worst=[replace(report.worst[0], message_id=hostile, topic=hostile)],
        timeline=replace(report.timeline, markers=[marker]),
        comparison=replace(comparison, sides=sides),
    )
    path = tmp_path / "hostile.html"
    path.write_text(html(report))
    page.said.clear()
    page.asked.clear()
    await page.show(path, 1_000)
    assert page.said == []
    assert page.asked == [path.as_uri()]
    assert await page.evaluate("document.querySelectorAll('.chart svg').length") == CHARTS
    assert await page.evaluate("document.querySelectorAll('img').length") == 0
    assert await page.evaluate("document.querySelector('h1').textContent") == figures.harmless(hostile)


async def test_three_hundred_steps_are_drawn(page: Page, tmp_path: Path) -> None:
    report = sample_report()
    start, step = report.timeline.instants[0].at_us, report.timeline.step_us
    report = replace(
        report,
        timeline=replace(
            report.timeline,
            instants=[
                d.Instant(at_us=start + n * step, count=400, p50_us=900, p99_us=90_000, max_us=900_000)
                for n in range(300)
            ],
            cells=[
                d.Cell(at_us=start + n * step, low_us=2**row, high_us=2 ** (row + 1), count=n * row + 1)
                for n in range(300)
                for row in range(40)
            ],
        ),
    )
    path = tmp_path / "long.html"
    path.write_text(html(report))
    await page.show(path, 1_280)
    assert await page.evaluate("document.querySelectorAll('#chart-heat svg .mark').length") > 300 * 40
