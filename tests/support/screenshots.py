"""``python -m tests.support.screenshots REPORT.html OUTDIR``: the pictures of a report that docs/ shows.

As Chromium draws it: the top of the page, its charts in the dark, and the top on a phone.
"""

import asyncio
import sys
from pathlib import Path

from tests.support.chromium import open_page


async def take(report: Path, out: Path) -> None:
    """Write report-light.png, report-dark.png and report-phone.png."""
    async with open_page() as page:
        for name, width, is_dark, begin, height in (
            ("light", 1_180, False, "html", 1_700),
            ("dark", 1_180, True, "#charts", 1_700),
            ("phone", 390, False, "html", 1_500),
        ):
            await page.show(report, width, dark=is_dark)
            (out / f"report-{name}.png").write_bytes(await page.screenshot(begin, height))


if __name__ == "__main__":
    directory = Path(sys.argv[2])
    directory.mkdir(parents=True, exist_ok=True)
    asyncio.run(take(Path(sys.argv[1]).resolve(), directory))
