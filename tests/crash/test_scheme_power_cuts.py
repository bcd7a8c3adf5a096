"""After power cuts with delay schemes that write into files, every answer that was given still holds.

The cuts also undo the schemes' writes since their last sync, page by page.
"""

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from mocketmq import outgoing
from mocketmq.settings import TimedSchemeName
from tests.crash.load import TOPIC
from tests.crash.points import SCHEME_TIMES
from tests.crash.survivor import Survivor, Variant
from tests.crash.test_kill import SEED, show_seed
from tests.crash.twins import after_a_cut, twins_of_a_load

__all__ = ["show_seed"]

SCHEMES: tuple[TimedSchemeName, ...] = ("wheel", "slots", "sorted")
DELAYS_S = [0, 1, 5, 60]
QUICK = {("wheel", "files.saved")}
QUICK_CUTS = 2
SLOW_CUTS = 6
ROUNDS = 2


def variant_of(scheme: TimedSchemeName) -> Variant:
    return Variant("manual", "exact", DELAYS_S, timed_scheme=scheme)


def noted(directory: Path, variant: Variant) -> Survivor:
    """Return a survivor whose brokers record their syncs."""
    survivor = Survivor(directory, variant)
    survivor.notes = directory / "syncs"
    return survivor


def cases() -> Iterator[object]:
    """Yield each point of each scheme; some are quick."""
    for scheme in SCHEMES:
        for point, times in SCHEME_TIMES[scheme].items():
            count = times[0] if point == "wheel.loaded" else times[-1]  # a second load takes a while
            is_quick = (scheme, point) in QUICK
            yield pytest.param(
                scheme, f"{point}:{count}", is_quick, marks=() if is_quick else pytest.mark.slow
            )


@pytest.mark.parametrize(("scheme", "failpoint", "is_quick"), [*cases()])
async def test_power_cut_at_a_point_of_a_scheme(
    tmp_path: Path, scheme: TimedSchemeName, failpoint: str, is_quick: bool
) -> None:
    random = Random(f"{SEED} power {scheme} {failpoint}")
    survivor = noted(tmp_path, variant_of(scheme))
    await survivor.run_until_killed(random, failpoint=failpoint)
    for number in range(QUICK_CUTS if is_quick else SLOW_CUTS):
        twin, _ = after_a_cut(survivor, number, random)
        await twin.recover()


@pytest.mark.slow
@pytest.mark.parametrize("round_", range(ROUNDS))
@pytest.mark.parametrize("scheme", SCHEMES)
async def test_power_cuts_of_a_scheme_at_random_moments(
    tmp_path: Path, scheme: TimedSchemeName, round_: int
) -> None:
    random = Random(f"{SEED} power {scheme} {round_}")
    survivor = noted(tmp_path, variant_of(scheme))
    for twin in await twins_of_a_load(survivor, random, SLOW_CUTS):
        await twin.recover()


@pytest.mark.parametrize(
    ("scheme", "delay_sync"),
    [
        pytest.param(scheme, delay_sync, marks=() if scheme == "wheel" else pytest.mark.slow)
        for scheme in SCHEMES
        for delay_sync in ("always", "never")
    ],
)
async def test_unsynced_messages_of_a_scheme_are_lost(
    tmp_path: Path, scheme: TimedSchemeName, delay_sync: str
) -> None:
    """``never`` makes no promise for power cuts, so the judge finds lost messages."""
    random = Random(SEED)
    survivor = noted(
        tmp_path, Variant("manual", "exact", DELAYS_S, delay_sync=delay_sync, timed_scheme=scheme)
    )
    async with survivor.broker() as (process, client):
        for number in range(3):
            message = outgoing("b", message_id=str(number)) | {"delay_ms": 60_000}
            survivor.judge.sending([message])
            survivor.judge.sent(await client.send(TOPIC, **message))
        process.kill()
        await process.wait()
    for number in range(50):
        twin, undone = after_a_cut(survivor, number, random)
        if undone.lost_changes == undone.changed:
            break
    if delay_sync == "always":
        await twin.recover()
    else:
        assert undone.changed
        with pytest.raises(AssertionError, match="was lost"):
            await twin.recover()
