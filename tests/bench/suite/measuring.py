"""Figures of the suite; those of the real RocketMQ are the floor."""

import asyncio
from collections.abc import Callable
from typing import Final

from tests.bench.figures import Figure
from tests.bench.progress import rounds, say
from tests.bench.suite.running import KINDS, SuiteRun, ours, run_suite, theirs
from tests.upstream.jars import V5_5, JarsMissingError, class_path
from tests.upstream.process import HEAPS

ROUNDS: Final = 3
_QUICK: Final = ("plain", "groups")


async def measure(quick: bool) -> list[Figure]:
    """Run the suite on both by turns; nothing without Java and Maven."""
    try:
        await asyncio.to_thread(class_path, V5_5)
    except JarsMissingError as error:
        say(f"no RocketMQ: {error}")
        return []
    say(f"RocketMQ {V5_5} with its proxy, with the serial collector; {' '.join(HEAPS['proxy'])}")
    kinds = _QUICK if quick else KINDS
    runs: tuple[list[SuiteRun], list[SuiteRun]] = ([], [])
    for _ in rounds("the suite", 1 if quick else ROUNDS):
        for side, start in zip(runs, (ours, theirs), strict=True):
            side.append(await run_suite(start, kinds))
            say(str(side[-1]))

    def figure(name: str, unit: str, value: Callable[[SuiteRun], float]) -> Figure:
        mine, real = (list(map(value, side)) for side in runs)
        return Figure(name, unit, mine, real)

    return [
        figure(f"a run of {runs[0][0].tests} tests, all", "s", lambda run: run.whole_s),
        figure("… of it the broker's start", "s", lambda run: run.start_s),
        figure("… the clients' start and end", "s", lambda run: run.service_s),
        figure("… the tests", "s", lambda run: run.tests_s),
        *(figure(f"… the tests: {kind}", "s", _seconds_of(kind)) for kind in kinds),
        figure("most memory, all processes of the broker", "MB", lambda run: run.memory_mb),
        figure("CPU time of these processes", "s", lambda run: run.cpu_s),
        Figure(
            "delays of the tests at full length, which RocketMQ runs shortened",
            "s",
            [run.passed_s for run in runs[0]],
        ),
    ]


def _seconds_of(kind: str) -> Callable[[SuiteRun], float]:
    return lambda run: run.kinds_s[kind]
