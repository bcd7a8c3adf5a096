"""``kill -9`` at every named point and at random moments: nothing acknowledged is lost, nothing repeated."""

import copy
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from random import Random, SystemRandom

import pytest

from mocketmq.clock import US_PER_MS, wall_us
from mocketmq.failpoint import POINTS
from tests.crash.load import TOPIC
from tests.crash.points import SCHEME_TIMES, TRANSACTION_TIMES
from tests.crash.survivor import Survivor, Variant
from tests.crash.test_snapshots import OF_RESTORES, OF_SAVES
from tests.support.delayed_files import DUE_MS, made

SEED = os.environ.get("CRASH_SEED") or str(SystemRandom().randrange(10**9))
"""The seed of all random choices; a failing test shows it, and the environment can set it."""

VARIANTS = {
    "exact": Variant("manual", "exact", [0, 1, 5, 60]),
    "real": Variant("real", "exact", [0, 1, 1, 2], delay_sync="interval"),
    "scaled": Variant("x20", "exact", [0, 1, 10, 20], delay_sync="never"),
    "rocketmq4": Variant("manual", "rocketmq4", [0, 1, 5, 60], durability="normal", delay_sync="interval"),
    "dongwo": Variant("x20", "exact", [0, 1, 10, 20], delay_sync="never", start_deliver_time="dongwo"),
}
TIMES = {
    "writer.formed": (1, 2, 4, 7, 30),  # the first passes belong to the start
    "writer.writing": (2, 5, 20, 60, 150),
    "writer.written": (1, 3, 5, 8, 40),
    "writer.committed": (1, 3, 6, 9, 50),
    "log.syncing": (1, 3, 6, 40),
    "log.synced": (1, 2, 7, 40),
    "delivery.picked": (1, 2, 7),
    "delivery.delivered": (1, 2, 9),
    "offsets.saved": (1, 2, 5),
    **SCHEME_TIMES["directories"],
    "clock.fired": (1, 3, 8),
    "receive.taken": (1, 3, 10),
    "receive.settled": (1, 2, 8),
}
"""Numbers of passes before a broker dies at each failpoint."""
FILE_POINTS = [point for point in TIMES if point.startswith("files.")]
ONLY_ONCE = "migrate.upgraded"
WITHOUT_LOAD = "slots.removed"
"""A failpoint that a load does not pass: ``tests/unit/compat/test_slot_store.py`` kills there."""
NEVER_IN = {
    "offsets.saved": {"exact", "real"},
    "clock.fired": {"real"},
    "log.syncing": {"rocketmq4"},  # its durability syncs only at checkpoints
    "log.synced": {"rocketmq4"},
}
"""Failpoints that a variant never reaches."""
QUICKLY_IN = {"offsets.saved": "rocketmq4"}
"""Variant of a failpoint's quick test, if it is not ``exact``."""

KILLS = 6
LONGEST_LOAD_S = 0.4
START_S = (0.0, 0.2)
"""Maximum time of a start."""
TESTS_OF_A_DIRECTORY = 8
"""Number of tests that share a data directory; each judges everything that earlier tests left there."""

Survivors = Callable[[str], AbstractContextManager[Survivor]]


def cases() -> Iterator[object]:
    """Yield each failpoint of a variant, with each number of passes for ``exact``, and one for the others.

    The other variants have a separate test for failpoints of files. Each point has one quick case.
    """
    for variant in ("exact", "real", "rocketmq4"):
        for number, (point, times) in enumerate(TIMES.items()):
            if variant not in NEVER_IN.get(point, ()) and (variant == "exact" or point not in FILE_POINTS):
                for count in times if variant == "exact" else (times[1 + number % (len(times) - 1)],):
                    is_quick = variant == QUICKLY_IN.get(point, "exact") and count == times[1]
                    yield pytest.param(
                        variant,
                        f"{point}:{count}",
                        id=f"{variant}-{point}:{count}",
                        marks=() if is_quick else pytest.mark.slow,
                    )


def slow_but(quick: object, values: Iterable[object]) -> list[object]:
    """Return parameters that are all slow except one."""
    return [pytest.param(value, marks=() if value == quick else pytest.mark.slow) for value in values]


@pytest.fixture(autouse=True)
def show_seed() -> None:
    print(f"CRASH_SEED={SEED}")  # noqa: T201 - pytest shows it with a failure


@pytest.fixture(scope="module")
def survivors(tmp_path_factory: pytest.TempPathFactory) -> Survivors:
    """A data directory per variant, with what the last few tests left in it."""
    kept: dict[str, Survivor] = {}
    tests: Counter[str] = Counter()

    @contextmanager
    def survivor(variant: str) -> Iterator[Survivor]:
        used = kept.pop(variant, None) or Survivor(tmp_path_factory.mktemp(variant), VARIANTS[variant])
        yield used
        tests[variant] += 1
        if tests[variant] % TESTS_OF_A_DIRECTORY:
            kept[variant] = used  # skipped after a failure, which must not affect the next test

    return survivor


def test_every_failpoint_is_covered() -> None:
    of_schemes = {point for times in SCHEME_TIMES.values() for point in times}  # see tests/schemes
    of_snapshots = {*OF_SAVES, *OF_RESTORES}
    assert {*TIMES, *TRANSACTION_TIMES, *of_schemes, *of_snapshots, ONLY_ONCE, WITHOUT_LOAD} == set(POINTS)


@pytest.mark.parametrize(("variant", "failpoint"), [*cases()])
async def test_kill_at_a_point(survivors: Survivors, variant: str, failpoint: str) -> None:
    with survivors(variant) as survivor:
        await survivor.run_until_killed(Random(f"{SEED} {variant} {failpoint}"), failpoint=failpoint)
        await survivor.recover()


@pytest.mark.parametrize("variant", slow_but("rocketmq4", ["real", "rocketmq4", "dongwo"]))
async def test_kill_at_every_point_of_the_files(survivors: Survivors, variant: str) -> None:
    """The kills come in random order, without repairs in between."""
    random = Random(f"{SEED} files {variant}")
    with survivors(variant) as survivor:
        for point in random.sample(FILE_POINTS, len(FILE_POINTS)):
            failpoint = f"{point}:{random.choice(TIMES[point])}"
            print(f"killed at {failpoint}")  # noqa: T201 - as the seed
            await survivor.run_until_killed(random, failpoint=failpoint)
        await survivor.recover()


@pytest.mark.parametrize("variant", slow_but("real", VARIANTS))
@pytest.mark.parametrize("round_", slow_but(0, range(2)))
async def test_kill_again_and_again(survivors: Survivors, variant: str, round_: int) -> None:
    """The next broker may be killed before it has finished the work of the last one."""
    random = Random(f"{SEED} {variant} {round_}")
    with survivors(variant) as survivor:
        for _ in range(KILLS):
            await survivor.run_until_killed(random, after_s=random.uniform(0, LONGEST_LOAD_S))
        await survivor.recover()


async def test_kill_while_the_schema_is_made(tmp_path: Path) -> None:
    survivor = Survivor(tmp_path, VARIANTS["exact"])
    await survivor.run_until_killed(Random(SEED), failpoint=f"{ONLY_ONCE}:1")
    await survivor.recover()


async def test_kill_while_starting(tmp_path: Path) -> None:
    """On an empty directory first, then on a store with pending work."""
    random = Random(SEED)
    survivor = Survivor(tmp_path, VARIANTS["exact"])
    for _ in range(KILLS):
        await survivor.kill_while_starting(random.uniform(*START_S))
    await survivor.run_until_killed(random, after_s=LONGEST_LOAD_S)
    for _ in range(KILLS):
        await survivor.kill_while_starting(random.uniform(*START_S))
    await survivor.recover()


async def test_kill_while_foreign_files_are_adopted(tmp_path: Path) -> None:
    """Files are added by hand under new names, every third file twice; half of them are due."""
    random = Random(f"{SEED} files")
    survivor = Survivor(tmp_path, VARIANTS["exact"])
    for number in range(600):
        due_ms = DUE_MS if number % 2 else wall_us() // US_PER_MS + 3_600_000 + number
        file = made(f"file{number}", due_ms=due_ms, number=number)
        for again in range(2 if number % 3 == 0 else 1):
            file.put(survivor.data / "delay", f"{random.randrange(10)}/{number} by hand {again}")
        survivor.judge.sending([{"message_id": file.header.unique_key, "start_deliver_ms": due_ms}])
        survivor.judge.sent({"message_id": file.header.unique_key, "store_ms": 0, "due_ms": due_ms})
    for _ in range(KILLS):
        await survivor.kill_while_starting(random.uniform(*START_S))
    await survivor.recover()


async def test_files_copied_back_after_a_kill(tmp_path: Path) -> None:
    """Most of the copies belong to messages that were delivered or cancelled."""
    random = Random(f"{SEED} backup")
    survivor = Survivor(tmp_path, VARIANTS["exact"])
    await survivor.run_until_killed(random, after_s=LONGEST_LOAD_S)
    backup = shutil.copytree(survivor.data / "delay", tmp_path / "backup")
    await survivor.run_until_killed(random, failpoint="files.removed:40")
    shutil.copytree(backup, survivor.data / "delay", dirs_exist_ok=True)
    await survivor.recover()


async def test_data_directory_copied_after_a_kill(tmp_path: Path) -> None:
    """The two brokers run independently."""
    random = Random(f"{SEED} copy")
    survivor = Survivor(tmp_path, VARIANTS["exact"])
    await survivor.run_until_killed(random, failpoint="files.delivered:3")
    twin = copy.copy(survivor)
    twin.judge = copy.deepcopy(survivor.judge)
    twin.data = shutil.copytree(survivor.data, tmp_path / "twin")
    await twin.run_until_killed(random, after_s=LONGEST_LOAD_S)
    await twin.recover()
    await survivor.recover()


@pytest.mark.parametrize(("profile", "times"), [("exact", 1), ("rocketmq4", 2)])
async def test_kill_between_two_saves_of_the_offsets(tmp_path: Path, profile: str, times: int) -> None:
    """Profile ``rocketmq4`` saves them every 10 s and repeats later deliveries; ``exact`` never repeats."""
    survivor = Survivor(tmp_path, Variant("manual", profile, [1]))
    async with survivor.broker() as (process, client):
        await client.send_batch(TOPIC, [{"body": "b", "delay_level": 1}] * 10)
        await client.advance("3s")
        assert (await client.wait_delivered(TOPIC, 10, wait="30s"))["reached"]
        process.kill()
        await process.wait()
    async with survivor.broker() as (_, client):
        await client.advance("3s")
        assert (await client.wait_delivered(TOPIC, 1, wait="30s"))["delivered"] == times * 10
