"""The commands of the incidents in docs/faults.md have the described effects, on a smaller scale."""

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from mocketmq.broker.broker import Broker
from tests.doors.test_faults import Doors, running_doors
from tests.support.brokers import TOPIC, S, bodies, send, visible
from tests.support.command_line import Shell

PAGE = Path(__file__).parents[2] / "docs" / "faults.md"
STORIES = dict(
    re.findall(
        r"\*\*([^*]+)\.\*\*[^`]*(?:`\w+`[^`]*)*```sh\nmocketmq (.*)\n```",
        PAGE.read_text("utf-8").partition("## Incidents that users")[2].partition("\n## ")[0],
    )
)
"""Commands by story."""
ALL_AT_ONCE = "Many messages are due at once, and their delivery takes minutes"
ONE_LEVEL = "One level is stuck, and the others are fine"
REPEATS = "A broker repeats deliveries after a restart"


async def tell(doors: Doors, story: str) -> None:
    """Run the story's command exactly as on the page."""
    await Shell(doors.api.emulator.url).json(*STORIES[story].split())


async def send_all(broker: Broker, sent: Sequence[str], level: int) -> None:
    for body in sent:
        await send(broker, body, level=level)


def test_documented_stories_are_tested() -> None:
    assert list(STORIES) == [ALL_AT_ONCE, ONE_LEVEL, REPEATS]


@pytest.mark.parametrize(("per_second", "takes_s"), [(None, 500), (16_130, 31)])
async def test_herd_of_due_messages_is_as_late_as_reported(per_second: int | None, takes_s: int) -> None:
    count, story = 100, STORIES[ALL_AT_ONCE]
    async with running_doors() as doors:
        if per_second is not None:
            story = re.sub(r"\d+$", str(per_second), story)
        await Shell(doors.api.emulator.url).json(*story.split())
        await send_all(doors.broker, [str(number) for number in range(count)], level=1)
        await doors.broker.mover.advance(60 * S)
        [row] = await doors.broker.store.database.rows("SELECT max(delivered_us - due_us) FROM deliveries")
        assert await doors.stored() == count
    of_500_000_s = row[0] / (count - 1) * 500_000 / S
    assert of_500_000_s == pytest.approx(takes_s, rel=0.01)


async def test_one_level_is_dead_and_the_others_are_fine_until_the_rule_ends() -> None:
    async with running_doors() as doors:
        await tell(doors, ONE_LEVEL)
        for level in (2, 3, 4):
            await send(doors.broker, f"level {level}", level=level)
        await doors.broker.mover.advance(3_600 * S)
        assert sorted(bodies(await visible(doors.broker, TOPIC))) == ["level 2", "level 4"]
        await Shell(doors.api.emulator.url)("faults", "rm", "--all")
        await doors.broker.mover.advance(0)
        assert await doors.stored() == 3


async def test_deliveries_of_before_a_restart_are_repeated_after_it(tmp_path: Path) -> None:
    sent = [str(number) for number in range(20)]
    async with running_doors(data=str(tmp_path)) as doors:
        await tell(doors, REPEATS)
        await send_all(doors.broker, sent, level=1)
        await doors.broker.mover.advance(1 * S)
        assert await doors.stored() == len(sent)
    async with running_doors(data=str(tmp_path)) as doors:
        assert await doors.stored() == len(sent)
        await doors.broker.mover.advance(600 * S)
        assert sorted(bodies(await visible(doors.broker, TOPIC))) == sorted(2 * sent)
        fault = await doors.api.ok("GET", "/v1/faults/fault-1")
        assert (fault["fired"], fault["next"]) == (len(sent), 100_000)
