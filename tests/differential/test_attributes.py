"""Valid and invalid changes of topic and group attributes, on real RocketMQs 5 and on mocketmq."""

import asyncio
import json
from collections.abc import Mapping, Sequence

import pytest

from mocketmq.remoting.wire.codes import RequestCode
from tests.differential.duel import Duel
from tests.differential.op import Op
from tests.differential.topics import ONE_QUEUE

pytestmark = [pytest.mark.differential, pytest.mark.asyncio(loop_scope="session")]

TOPIC = {"topic": "T~", **ONE_QUEUE}
OF_TOPICS = (
    "+message.type=FIFO",
    "+message.type=FIFO,+reserve.time=5",
    "+message.type=fifo",
    "+message.type=SLOW",
    "+message.type=PRIORITY",
    "+message.type=LITE",
    "+message.type=MIXED",
    "+lite.topic.expiration=60",
    "+cleanup.policy=COMPACTION",
    "+queue.type=SimpleCQ",
    "+reserve.time=-1",
    "+reserve.time=-2",
    "+reserve.time=soon",
    "+colour=red",
    "-colour",
    "-message.type",
    "message.type=FIFO",
    "message.type",
    "+a=1,+a=2",
)
OF_GROUPS: tuple[Mapping[str, str], ...] = (
    {"+priority.factor": "50"},
    {"+priority.factor": "101"},
    {"priority.factor": "50"},
    {"-priority.factor": ""},
    {"+colour": "red"},
    {"colour": "red"},
    {"-colour": ""},
    {"+lite.bind.topic": "orders"},
    {"+": "1"},
    {"": "1"},
)


def topic_with(attributes: str) -> Op:
    """Create or change the topic."""
    ext = TOPIC | ({"attributes": attributes} if attributes else {})
    return Op("change", {"code": RequestCode.UPDATE_AND_CREATE_TOPIC, "ext": ext})


def group_with(attributes: Mapping[str, str]) -> Op:
    """Create or change the group."""
    body = json.dumps({"groupName": "G~", "attributes": attributes})
    return Op("change", {"code": RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, "ext": {}, "body": body})


TOPIC_SHOWN = Op("ask", {"code": RequestCode.GET_TOPIC_CONFIG, "ext": {"topic": "T~"}})
GROUP_SHOWN = Op("ask", {"code": RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, "ext": {"group": "G~"}})


def mixed(allowed: str) -> Op:
    """Allow or forbid topics of mixed message types."""
    body = f"enableMixedMessageType={allowed}"
    return Op("change", {"code": RequestCode.UPDATE_BROKER_CONFIG, "ext": {}, "body": body})


async def parted(duels: Sequence[Duel], *plays: list[Op]) -> str:
    """Play the sequences side by side, and return the unlisted differences."""

    async def play(duel: Duel, ops: list[Op]) -> list[str]:
        return [f"from RocketMQ {duel.version}: {difference}" for difference in await duel.play(ops)]

    found = await asyncio.gather(*(play(duel, ops) for duel in duels for ops in plays))
    return "\n".join(line for lines in found for line in lines)


@pytest.mark.parametrize("is_known", [False, True], ids=["new", "known"])
async def test_attributes_are_changed_alike(pop_duels: Sequence[Duel], is_known: bool) -> None:
    topics = [[topic_with(change), TOPIC_SHOWN] for change in OF_TOPICS]
    groups = [[group_with(change)] for change in OF_GROUPS]  # RocketMQ creates a group when asked to show it
    if is_known:
        topics = [[topic_with(""), *ops] for ops in topics]
        groups = [[group_with({}), *ops, GROUP_SHOWN] for ops in groups]
    assert await parted(pop_duels, *topics, *groups) == ""


async def test_change_without_attributes_keeps_them_alike(pop_duels: Sequence[Duel]) -> None:
    wanted = topic_with("+message.type=FIFO,+reserve.time=5")
    plays = [[wanted, topic_with(""), TOPIC_SHOWN], [wanted, topic_with("-message.type"), TOPIC_SHOWN]]
    assert await parted(pop_duels, *plays) == ""


async def test_mixed_types_are_refused_alike_without_the_setting(pop_duels: Sequence[Duel]) -> None:
    try:
        plays = [mixed("false"), topic_with("+message.type=MIXED"), TOPIC_SHOWN]
        assert await parted(pop_duels, plays) == ""
    finally:
        assert await parted(pop_duels, [mixed("true"), topic_with("+message.type=MIXED"), TOPIC_SHOWN]) == ""
