"""Compares the delay schemes with the lab, also for saves without syncs, because syncs measure the disk.

``SCHEMES_PENDING`` in the environment says how many are pending at most, such as 1000000 or 10000000; a tenth
and a hundredth of that are measured too. Data of one size is removed before the next.
"""

import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import get_args

from mocketmq.clock import US_PER_MS, US_PER_S
from mocketmq.lab.laboratory import run_lab
from mocketmq.lab.load import LEVELS, Load, SchemeName
from mocketmq.lab.scheme_run import saves_per_second
from mocketmq.settings import TimedSchemeName
from mocketmq_report.job import ReportRunner
from mocketmq_report.lab.document import Subject
from mocketmq_report.lab.making import make_lab_report
from mocketmq_report.progress import ignore_progress
from tests.bench.figures import Figure
from tests.bench.progress import rounds, say

SCHEMES: tuple[SchemeName, ...] = (LEVELS, *reversed(get_args(TimedSchemeName)))
"""Schemes in order. Second directories come last, because they take longest to fill."""
PENDING = int(os.environ.get("SCHEMES_PENDING", "100000"))
MOST_FOR_ROUNDS = 1_000_000
"""Size above which a size is measured only once, because it takes hours."""
USUAL = Load(seconds=6, herd=50_000, saves_s=3.0, pending=(PENDING // 100, PENDING // 10, PENDING))
QUICK = Load(rate=100, seconds=1, delays_us=(US_PER_S,), herd=1_000, saves_s=0.2, pending=(2_000,))


async def measure(quick: bool) -> list[Figure]:
    """Run the lab in rounds, which may take hours; each scheme's figures are printed at once."""
    load = QUICK if quick else USUAL
    figures: dict[tuple[str, str], list[float]] = {}
    for _ in rounds("schemes", 1 if quick or PENDING > MOST_FOR_ROUNDS else 3):
        for scheme in SCHEMES:
            for name, unit, value in await _measured(scheme, load):
                say(str(Figure(f"{name}: {scheme}", unit, [value])))
                figures.setdefault((f"{name}: {scheme}", unit), []).append(value)
    return [Figure(name, unit, runs) for (name, unit), runs in sorted(figures.items())]


async def _measured(scheme: SchemeName, load: Load) -> list[tuple[str, str, float]]:
    """The figures of one scheme: name, unit and value."""
    with TemporaryDirectory(prefix="mocketmq-bench-") as data:
        place = Path(data)
        results = await run_lab([scheme], load, place, _say_step, None)
        lab = make_lab_report(ReportRunner(None), load, results, place, "schemes", ignore_progress)
        rate = await saves_per_second(scheme, load._replace(delay_sync="never"), place / "never")
        return [
            *(figure for subject in lab.subjects for figure in _of(subject)),
            ("saves, delay-sync never", "/s", rate),
        ]


def _say_step(what: str, done: int, of: int | None) -> None:
    say(f"{done + 1} of {of}, {what}")


def _of(subject: Subject) -> list[tuple[str, str, float]]:
    """The figures of one scheme: name, unit and value."""
    late = subject.lateness[0]
    found = [
        ("saves, delay-sync always", "/s", subject.saves_per_second),
        ("a herd: delivered", "/s", subject.herd.per_second if subject.herd else None),
        *(
            (f"lateness, {name}", "ms", None if value is None else value / US_PER_MS)
            for name, value in (("p50", late.p50_us), ("p99", late.p99_us))
        ),
        *(
            (f"{grown.pending:,} pending: {name}", unit, value)
            for grown in subject.growth
            if grown.pending
            for name, unit, value in (
                ("disk for each", "B", grown.disk_each),
                ("memory for each", "B", grown.memory_each),
                ("restart to ready", "s", grown.start_us / US_PER_S),
            )
        ),
    ]
    return [(name, unit, value) for name, unit, value in found if value is not None]
