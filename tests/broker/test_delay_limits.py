"""A broker under the delay limits of another system: what it refuses, rounds, drops and delays."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from mocketmq.broker.broker import Broker
from mocketmq.clock import US_PER_S
from mocketmq.delay_limits import DELAY_LIMITS
from mocketmq.errors import IllegalMessageError, OverLimitError, SettingError, StoreFullError
from mocketmq.message.message import Message
from mocketmq.message.properties import TIMER_DELAY_SEC
from mocketmq.settings import DelayLimitsName
from tests.support.brokers import TOPIC, acknowledge, bodies, receive, running_broker, send
from tests.support.patience import HANGING_S
from tests.support.second_directories import no_removal_left

OTHER = "elsewhere"


async def due_in_s(broker: Broker, topic: str = TOPIC, **asked: Any) -> float | None:
    """Return the delay of a message with these properties, or None if it is visible at once."""
    now_us = broker.clock.now_us()
    stored = (await send(broker, topic=topic, **asked)).stored
    return None if stored.due_us is None else (stored.due_us - now_us) / US_PER_S


async def test_without_delay_limits_delays_are_unchanged() -> None:
    async with running_broker() as broker:
        assert await due_in_s(broker, TIMER_DELAY_MS="1500") == 1.5


@pytest.mark.parametrize(
    ("delay_limits", "asked", "waits_s"),
    [
        *(("sqs", {"TIMER_DELAY_MS": "1500"}, 2), ("sqs", {"TIMER_DELAY_SEC": "900"}, 900)),
        *(("sqs", {"level": "14"}, 600), ("cmq", {"TIMER_DELAY_MS": "1"}, 1)),
        *(("pulsar", {"TIMER_DELAY_MS": "1000"}, None), ("pulsar", {"TIMER_DELAY_MS": "1001"}, 1.001)),
        *(("pulsar", {"level": "1"}, None), ("pulsar", {"level": "2"}, 5)),
        *(("rocketmq4", {"TIMER_DELAY_MS": "1500"}, None), ("rocketmq4", {"level": "18"}, 7200)),
        *(("huawei", {"TIMER_DELAY_SEC": "31536000"}, 365 * 86400), ("huawei5", {"level": "3"}, 10)),
        *(("aliyun5-standard", {"TIMER_DELAY_SEC": "604801"}, None), ("aliyun5", {"level": "3"}, 10)),
        *(("rabbitmq", {"TIMER_DELAY_MS": "1500"}, 1.5), ("rabbitmq", {"level": "3"}, 10)),
    ],
)
async def test_delay_limits_change_delays_like_the_system(
    delay_limits: DelayLimitsName, asked: dict[str, Any], waits_s: float | None
) -> None:
    async with running_broker(delay_limits=delay_limits) as broker:
        found = await due_in_s(broker, **asked)
        if DELAY_LIMITS[delay_limits].rounds == "due time" and found is not None and waits_s is not None:
            assert 0 <= found - waits_s < DELAY_LIMITS[delay_limits].grain_us / US_PER_S
        else:
            assert found == waits_s


@pytest.mark.parametrize(
    ("delay_limits", "asked"),
    [
        *(("sqs", {"TIMER_DELAY_MS": "900001"}), ("sqs", {"level": "16"}), ("cmq", {"level": "18"})),
        *(("rocketmq5", {"TIMER_DELAY_SEC": "259201"}), ("huawei5", {"TIMER_DELAY_SEC": "604801"})),
        *(("aliyun4", {"TIMER_DELAY_SEC": "3456001"}), ("huawei", {"TIMER_DELAY_SEC": "31536001"})),
        ("rabbitmq", {"TIMER_DELAY_MS": "4294967296"}),
    ],
)
async def test_excessive_delay_is_refused_and_leaves_no_message(
    delay_limits: DelayLimitsName, asked: dict[str, Any]
) -> None:
    async with running_broker(delay_limits=delay_limits) as broker:
        with pytest.raises(IllegalMessageError):
            await send(broker, **asked)
        assert broker.schemes.pending == 0
        assert await receive(broker) == []


async def test_rocketmq_5_knows_timers_and_no_start_deliver_times() -> None:
    async with running_broker(delay_limits="rocketmq5") as broker:
        ahead_ms = broker.clock.now_us() // 1000 + 3_600_000
        assert await due_in_s(broker, __STARTDELIVERTIME=str(ahead_ms)) is None
        stored = (await send(broker, TIMER_DELAY_MS="1500")).stored
        assert stored.due_us is not None
        assert stored.due_us % US_PER_S == 0


async def test_rabbitmq_blocks_messages_behind_a_longer_delay() -> None:
    async with running_broker(delay_limits="rabbitmq") as broker:
        assert await due_in_s(broker, TIMER_DELAY_SEC="60") == 60
        assert await due_in_s(broker, TIMER_DELAY_SEC="5") == 60
        assert await due_in_s(broker, level="3") == 60
        assert await due_in_s(broker, level="3", topic=OTHER) == 10
        await broker.mover.advance(59 * US_PER_S)
        assert await receive(broker) == []
        await broker.mover.advance(US_PER_S)
        assert len(await receive(broker)) == 3
        assert await due_in_s(broker, TIMER_DELAY_SEC="5") == 5  # no message waits any more


async def test_refused_messages_block_no_others(tmp_path: Path) -> None:
    async with running_broker(tmp_path, delay_limits="rabbitmq", delay_quota_bytes=2 * 4_096) as broker:
        batch = [Message(TOPIC, b"body", {TIMER_DELAY_SEC: "60"}) for _ in range(3)]
        with pytest.raises(StoreFullError):  # the third does not fit, so the others are taken back
            await broker.sender.send_batch(batch)
        await no_removal_left(broker)
        assert await due_in_s(broker, TIMER_DELAY_SEC="5") == 5
        assert await due_in_s(broker, TIMER_DELAY_SEC="1") == 5


@pytest.fixture
def three_in_flight(monkeypatch: pytest.MonkeyPatch) -> None:
    """SQS, limited to three messages in flight."""
    monkeypatch.setitem(DELAY_LIMITS, "sqs", DELAY_LIMITS["sqs"]._replace(in_flight=3))


@pytest.mark.usefixtures("three_in_flight")
async def test_sqs_limits_messages_in_flight_per_group_and_topic() -> None:
    async with running_broker(delay_limits="sqs") as broker:
        for body in "abcde":
            await send(broker, body)
            await send(broker, body, topic=OTHER)
        taken = await receive(broker, 2)
        taken += await receive(broker)
        assert len(taken) == 3
        words = (
            "OverLimit: The specified action violates a limit. Messages of orders in flight for billing: 3"
        )
        with pytest.raises(OverLimitError, match=f"^{words}$"):
            await receive(broker)
        assert len(await receive(broker, topic=OTHER)) == 3
        assert len(await receive(broker, group="others")) == 3
        await acknowledge(broker, taken[:2])
        more = await receive(broker)
        assert sorted(bodies([*taken, *more])) == [*"abcde"]
        await broker.mover.advance(30 * US_PER_S)
        assert sorted(bodies(await receive(broker))) == sorted(bodies([taken[2], *more]))


@pytest.mark.usefixtures("three_in_flight")
async def test_sqs_long_polls_wait_while_the_in_flight_limit_is_reached() -> None:
    async with running_broker(delay_limits="sqs") as broker:
        for body in "abcd":
            await send(broker, body)
        taken = await receive(broker)
        assert await receive(broker, wait_s=0.01) == []
        waiting = asyncio.create_task(receive(broker, wait_s=HANGING_S))
        await acknowledge(broker, taken[:1])
        assert len(await waiting) == 1


async def test_head_of_line_blocking_survives_a_restart(tmp_path: Path) -> None:
    async with running_broker(tmp_path, delay_limits="rabbitmq") as broker:
        await send(broker, TIMER_DELAY_SEC="60")
    async with running_broker(tmp_path, delay_limits="rabbitmq") as broker:
        assert await due_in_s(broker, TIMER_DELAY_SEC="5") == pytest.approx(60, abs=0.001)


async def test_a_reset_ends_head_of_line_blocking() -> None:
    async with running_broker(delay_limits="rabbitmq") as broker:
        await send(broker, TIMER_DELAY_SEC="60")
        await send(broker, TIMER_DELAY_SEC="60", topic=OTHER)
        await broker.reset.topic(TOPIC)
        assert await due_in_s(broker, TIMER_DELAY_SEC="5") == 5
        assert await due_in_s(broker, TIMER_DELAY_SEC="5", topic=OTHER) == 60
        await broker.reset.all()
        assert await due_in_s(broker, TIMER_DELAY_SEC="5", topic=OTHER) == 5


@pytest.mark.parametrize("other", [{"start_deliver_time": "dongwo"}, {"start_deliver_window_us": 1}])
async def test_delay_limits_exclude_the_settings_they_replace(
    other: dict[str, Any],
) -> None:
    with pytest.raises(SettingError, match=f"either delay_limits or {next(iter(other)).removesuffix('_us')}"):
        async with running_broker(delay_limits="sqs", **other):
            pass
