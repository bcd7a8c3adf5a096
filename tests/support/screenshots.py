"""``python -m tests.support.screenshots OUTDIR``: make the pictures of a report that docs/ shows.

Chromium draws the top of the golden ledger's page, its charts in the dark theme, and a comparison of two
made-up ledgers, in English and in Chinese. The pictures are the same on every run and machine.
"""

import asyncio
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from mocketmq_report.job import Job, ReportRunner, run
from mocketmq_report.judge.drawn_limits import drawn_limits
from mocketmq_report.judge.thresholds import parse_file
from mocketmq_report.progress import ignore_progress
from mocketmq_report.report.html import html
from tests.support.chromium import open_page
from tests.support.reports import sample_comparison, sample_report

GOLDEN: Final = Path(__file__).parents[1] / "spark" / "golden"
_PICTURES: Final = (
    # name, page, width, whether the theme is dark, first element, height
    ("report-light", "golden", 1_180, False, "html", 1_225),
    ("report-dark", "golden", 1_180, True, "#charts", 1_790),
    ("report-comparison", "comparison", 1_180, False, "#comparison", 1_180),
)


def write_pages(folder: Path) -> None:
    """Write the report pages for the pictures."""
    limits = parse_file(GOLDEN / "thresholds.txt")
    job = Job(data=[str(GOLDEN / "ledger.csv")], title="nightly", thresholds=limits)
    report = run(ReportRunner(None), job, ignore_progress)
    (folder / "golden.html").write_text(html(report, list(drawn_limits(limits, report))))
    (folder / "comparison.html").write_text(html(sample_report(comparison=sample_comparison())))


async def take(folder: Path, out: Path) -> None:
    """Take the pictures of the pages in the folder."""
    async with open_page() as page:
        for language, place in (("en", out), ("zh-CN", out / "zh-CN")):
            place.mkdir(exist_ok=True)
            for name, shown, width, is_dark, begin, height in _PICTURES:
                await page.show(folder / f"{shown}.html", width, dark=is_dark)
                shows = f"document.documentElement.lang === '{language}'"
                await page.evaluate(f"{shows} || document.querySelector('#language').click()")
                (place / f"{name}.png").write_bytes(await page.screenshot(begin, height))


if __name__ == "__main__":
    directory = Path(sys.argv[1])
    directory.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as scratch:
        write_pages(Path(scratch))
        asyncio.run(take(Path(scratch), directory))
