"""Reports whose sentences have names, figures and lists, in Chinese in a real Chromium."""

import re
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from mocketmq_report import document as d
from mocketmq_report.judge.thresholds import judge, parse
from mocketmq_report.report.html import html
from tests.support.browser import running_browser
from tests.support.chromium import needs_chromium, open_page
from tests.support.page_texts import TEXTS
from tests.support.reports import sample_comparison, sample_report

SENTENCES = {
    "延迟级别 16（30 分）静默：有逾期消息，之后再没有投递。",
    "延迟级别 3（10 秒）：各部分之和不等于发送数。",
    "延迟级别 13（9 分）、延迟级别 18（2 小时）",
    "2,550 次投递中，60 次（2.35%）延误超过 100 毫秒：",
    "10 条留在存储里未投递（静默：延迟级别 16（30 分）），最多 10 分",
    "10 条受注入故障 F1 影响（确认 5 次被拒绝、消费组 G1 的接收 1 次被断开、Broker 宕机 1 分 30 秒），"
    "最多 10 分（90% 由故障造成，最多 5 秒；10% 由消费者造成，最多 3.7 毫秒）",
    "10 条因消费组 G1 (90%)、G2 (10%) 的消费者慢，最多 10 分",
    "D1 等，另有 2 个：忽略了 c1、c2",
    "2：stored_us 晚于 9999 年",
    "报告里没有 Topic 'T9'；有的是 'orders'、'payments'",
    "profile 不同：exact 是 exact，rocketmq4 是 rocketmq4",
    "按 SQS 的延迟限制，3,000 条消息里有 40 条会被延迟。",
    "晚 1 分 30 秒",
    "orders 的 M1：1 小时 → 拒绝",
}
"""Sentences with names, figures and lists, each of which was once half Chinese or in English."""
UNKNOWN = "topic orders is odd: no catalogue has this sentence, level 3 (10s) and level 4 (30s)"
LATIN = {"Broker", "NameServer", "Topic", "UTC", "Spark", "mocketmq", "json", "report", "profile"}
"""What Chinese engineers write in Latin letters."""
NAMES = {"nightly", "orders", "payments", "exact", "rocketmq", "SQS", "ms"} | {
    *("on", "time", "early", "due", "us", "stored"),
}
"""The sample's names, and parts of codes such as ``on_time``."""


def told_report() -> d.Report:
    """Return a report with the sentences that a report has in bad times: warnings, causes and reasons."""
    plain = sample_report()
    struck = [
        d.StruckRequests(do="refuse", operation="ack", group="", count=5, away_us=None),
        d.StruckRequests(do="close", operation="receive", group="G1", count=1, away_us=None),
        d.StruckRequests(do="broker-away", operation="", group="", count=0, away_us=90_000_000),
    ]
    groups = [d.CauseGroup(name="G1", messages=9, max_us=7), d.CauseGroup(name="G2", messages=1, max_us=7)]
    shares = [
        d.CauseShare(by="fault", share=0.9, max_us=5_000_000),
        d.CauseShare(by="consumer", share=0.1, max_us=3_700),
    ]

    def cause(name: d.CauseName, at: Any = "delivery", **more: Any) -> d.Cause:
        common: dict[str, Any] = {"fault": "", "messages": 10, "share": 0.1, "max_us": 600_000_000}
        return d.Cause(**common | {"at": at, "cause": name, "due_together": 4} | more)

    names: tuple[d.CauseName, ...] = ("overdue", "stored", "line", "waking", "written", "unknown")
    late: tuple[d.CauseName, ...] = ("absent", "slow")
    causes = [
        *(cause(name) for name in names),
        cause("fault", "consumer", fault="F1", struck=struck, shares=shares),
        *(cause(name, "consumer", groups=groups) for name in late),
        cause("slow", "consumer", groups=groups[:1], fault="F1", struck=struck[:1], shares=shares),
    ]
    reconciliation = [
        replace(row, sent=row.sent + 1) if row.dimension == "level" and row.name in ("3", "4") else row
        for row in plain.reconciliation
    ]
    quality = replace(
        plain.quality,
        dropped=[
            d.Drop(reason=reason, rows=2)
            for reason in ("no due_us", "stored_us is beyond the year 9999", "both due_us and due_ms")
        ],
    )
    texts = (
        "level=* p99 <= 1ms",
        "level=99 max <= 1s",
        "topic=T9 max < 1s",
        "p99.99 <= 1s",
        "level=18 p50 < 1s",
    )
    many = (*texts, "on_time(3ms) >= 99%", "level=* p99.9 <= 9s")
    warnings = [
        "only the 100 topics with the most deliveries are shown, there are more",
        "2 of the 3 runs of D1 are also in D2, and are counted there only",
        "D1 and 2 more: ignored c1, c2",
        "the runs are of different versions: 0.1.0 (2), 0.2.0 (1)",
        UNKNOWN,
    ]
    verdicts: tuple[tuple[d.VerdictName, int | None], ...] = (("refused", None), ("held up", 90_000_000))
    limits = d.DelayLimitsFindings(
        name="sqs",
        title="SQS",
        delays=3_000,
        delayed=40,
        verdicts=[
            d.DelayLimitsVerdict(
                verdict=verdict,
                messages=20,
                p50_us=1_000_000,
                max_us=90_000_000,
                examples=[
                    d.DelayLimitsExample(
                        message_id="M1",
                        run="R1",
                        words=None,
                        topic="orders",
                        stored_us=0,
                        delay_us=3_600_000_000,
                        granted_us=granted,
                    )
                ],
            )
            for verdict, granted in verdicts
        ],
    )
    return replace(
        plain,
        header=replace(plain.header, warnings=warnings),
        causes=causes,
        reconciliation=reconciliation,
        quality=quality,
        judgements=[judge(parse(text), plain) for text in many],
        comparison=sample_comparison(),
        delay_limits=limits,
    )


@needs_chromium
async def test_sentences_with_names_and_figures_are_wholly_chinese(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text(html(told_report()))
    async with open_page() as page:
        await page.show(path, 1_180)
        await page.evaluate("document.getElementById('language').click()")
        chosen = "#comparison strong[translate], #chart-comparison .keys li"
        names = await page.evaluate(
            f"[...document.querySelectorAll('{chosen}')].map((one) => one.textContent)"
        )
        texts = [text.strip() for text in await page.evaluate(TEXTS)]
    left = {text for text in texts if {*re.findall("[A-Za-z]{2,}", text)} - LATIN - NAMES}
    assert sorted(left) == [UNKNOWN]
    assert SENTENCES - {*texts} == set()
    assert names == ["exact", "exact", "rocketmq4"]


@needs_chromium
@pytest.mark.parametrize(
    ("locale", "variety", "made", "midnight"),
    [
        ("en-US", "en-US", "Made Nov 21, 2026, 00:01:30.000 UTC by ", "Nov 21"),
        ("en-GB", "en-GB", "Made 21 Nov 2026, 00:01:30.000 UTC by ", "21 Nov"),
        ("en-ZA", "en-ZA", "Made 21 Nov 2026, 00:01:30", "21 Nov"),  # with a decimal comma
        ("fr", "en", "Made Nov 21, 2026, 00:01:30.000 UTC by ", "Nov 21"),
        ("zh-CN", "zh-CN", " 于 2026年11月21日 UTC 00:01:30.000 用 Spark ", "11月21日"),
    ],
)
async def test_dates_and_numbers_follow_the_browsers_region(
    tmp_path: Path, locale: str, variety: str, made: str, midnight: str
) -> None:
    path = tmp_path / "report.html"
    path.write_text(html(told_report()))
    async with running_browser() as browser:
        context = await browser.new_context(locale=locale)
        page = await context.new_page()
        await page.goto(path.as_uri())
        whole, share = await page.evaluate(
            "(locale) => [2550, 2.35].map((one) => new Intl.NumberFormat(locale).format(one))", variety
        )
        reasons = await page.inner_text(".reasons p")
        assert whole in reasons
        assert f"{share}%" in reasons
        assert made in await page.inner_text("footer")
        ticks = await page.locator("#chart-time .tick").all_text_contents()
        assert ticks[-1] == midnight
        assert "22:10" in ticks
        assert await page.locator("#levels tbody tr td").nth(1).text_content() == whole
        await context.close()
