"""Delays over remoting: levels, timers and start-deliver times (docs/protocol/remoting.md §5)."""

import pytest

from mocketmq.clock import US_PER_MS, US_PER_S, wall_us, whole_ms_us
from mocketmq.message.names import SCHEDULE_TOPIC, TIMER_TOPIC
from mocketmq.message.properties import MAX_TIMER_DELAY_MS
from mocketmq.remoting.wire.record import WireRecord, decode_records
from tests.doors.remoting.producing import (
    UNIQUE,
    V2,
    Ext,
    header,
    parted,
    pulled,
    refused,
    sent,
)
from tests.support.brokers import DELAYS_US, GROUP
from tests.support.remoting import Remoting, running_remoting

S = US_PER_S
HOUR_MS = 3_600_000
START = "__STARTDELIVERTIME"
VIEW = 33
TIMER = (
    "timer message illegal, the delay time should not be bigger than the max delay 259200000dms;"
    " or if set del msg, the delay time should be bigger than the current time; property "
)


async def viewed(remoting: Remoting, ext: Ext) -> WireRecord:
    """Return the record with the message id of the answer."""
    answer = await remoting.client.ok(VIEW, {"offset": str(int(ext["msgId"][16:], 16))})
    [record] = decode_records(answer.body)
    assert ext["msgId"] == f"7F000001{remoting.server.broker_port:08X}{record.log_offset:016X}"
    return record


async def advance(remoting: Remoting, by_us: int) -> int:
    """Move the clock, and return the number of messages delivered."""
    return (await remoting.broker.mover.advance(by_us)).fired


# Levels


@pytest.mark.parametrize("level", range(1, 19))
async def test_a_level_delays_a_message_by_exactly_its_time(level: int) -> None:
    async with running_remoting() as remoting:
        before = await sent(remoting.client, b"before", queue_id=3, properties={"DELAY": str(level)})
        given = {"DELAY": str(level), "UNIQ_KEY": UNIQUE, "TAGS": "red", "WAIT": "true"}
        ext = await sent(remoting.client, b"later", properties=given, queue_id=3, reconsume_times=1, flag=9)
        # The answer names the sender's own queue, but otherwise describes the parked record.
        assert (ext["queueId"], ext["queueOffset"], ext["transactionId"]) == ("3", "1", UNIQUE)
        names = ("MSG_REGION", "TRACE_ON", "msgId", "queueId", "queueOffset", "transactionId")
        assert set(ext) == set(names)
        parked = await viewed(remoting, ext)
        assert (parked.topic, parked.queue_id, parked.queue_offset) == (SCHEDULE_TOPIC, level - 1, 1)
        assert await viewed(remoting, before) != parked
        assert await pulled(remoting.client, queue_id=3) == []

        assert await advance(remoting, DELAYS_US[level - 1] - 1) == 0
        assert await pulled(remoting.client, queue_id=3) == []
        assert await advance(remoting, 1) == 2
        _, found = await pulled(remoting.client, queue_id=3)
        marks = {"REAL_TOPIC": "orders", "REAL_QID": "3", "CLUSTER": "DefaultCluster"}
        assert parted(found.properties) == {**given, **marks}
        assert parted(parked.properties) == parted(found.properties)
        assert (found.topic, found.queue_id, found.queue_offset) == ("orders", 3, 1)
        assert found.store_ms == parked.store_ms + DELAYS_US[level - 1] // US_PER_MS
        assert found.log_offset > parked.log_offset
        kept = ("body", "flag", "sys_flag", "born_ms", "born_host", "store_host", "reconsume_times")
        assert [getattr(found, name) for name in kept] == [getattr(parked, name) for name in kept]
        assert (found.body, found.flag, found.reconsume_times) == (b"later", 9, 1)


@pytest.mark.parametrize("text", ["19", "100", "2147483647", "+19", "019"])
async def test_a_level_above_the_highest_is_clamped_and_reported(text: str) -> None:
    async with running_remoting() as remoting:
        parked = await viewed(remoting, await sent(remoting.client, properties={"DELAY": text}))
        assert (parked.queue_id, parted(parked.properties)["DELAY"]) == (17, "18")
        await advance(remoting, 7200 * S)
        [found] = await pulled(remoting.client)
        assert parted(found.properties)["DELAY"] == "18"


@pytest.mark.parametrize("text", ["0", "-1", "-2147483648", "00"])
async def test_missing_level_is_no_delay(text: str) -> None:
    async with running_remoting() as remoting:
        ext = await sent(remoting.client, properties={"DELAY": text, "UNIQ_KEY": UNIQUE})
        [found] = await pulled(remoting.client)
        assert found == await viewed(remoting, ext)
        assert parted(found.properties) == {"DELAY": text, "UNIQ_KEY": UNIQUE, "CLUSTER": "DefaultCluster"}


@pytest.mark.parametrize("text", ["abc", "1.5", " 1", "2147483648"])
async def test_non_numeric_level_is_refused_with_javas_exception(text: str) -> None:
    async with running_remoting() as remoting:
        assert await refused(remoting.client, properties={"DELAY": text}) == (
            1,
            f'java.lang.NumberFormatException: For input string: "{text}"; property DELAY must be'
            " a whole number, 1 to 18 for a delay, 0 or less for none",
        )
        assert not remoting.broker.pending.count


async def test_a_delayed_message_may_be_sent_oneway_and_to_any_queue() -> None:
    async with running_remoting() as remoting:
        remoting.client.oneway(V2, header(V2, {"DELAY": "1"}, queue_id=-1), b"x")
        ext = await sent(remoting.client, properties={"DELAY": "1"}, queue_id=-1)
        assert ext["queueId"] in "0123"
        assert await advance(remoting, 1 * S) == 2


# Timers


@pytest.mark.parametrize(
    ("given", "delay_ms"),
    [
        ({"TIMER_DELAY_SEC": "7"}, 7_000),
        ({"TIMER_DELAY_MS": "1234"}, 1_234),
        ({"TIMER_DELAY_MS": "1234", "TIMER_DELAY_SEC": "7", "TIMER_DELIVER_MS": "1"}, 7_000),
        ({"TIMER_DELAY_MS": "1234", "TIMER_DELIVER_MS": "1"}, 1_234),
        ({"TIMER_DELAY_MS": str(MAX_TIMER_DELAY_MS), "DELAY": "0"}, MAX_TIMER_DELAY_MS),
    ],
)
async def test_a_timer_delays_a_message_to_the_millisecond(given: dict[str, str], delay_ms: int) -> None:
    async with running_remoting() as remoting:
        ext = await sent(remoting.client, b"later", properties={**given, "UNIQ_KEY": UNIQUE}, queue_id=2)
        assert (ext["queueId"], ext["queueOffset"], ext["transactionId"]) == ("2", "0", UNIQUE)
        parked = await viewed(remoting, ext)
        assert (parked.topic, parked.queue_id, parked.body) == (TIMER_TOPIC, 0, b"later")
        due_ms = parked.store_ms + delay_ms

        due_us = remoting.broker.pending.next_due_us or 0
        assert await advance(remoting, due_us - remoting.broker.clock.now_us() - 1) == 0
        assert await pulled(remoting.client, queue_id=2) == []
        assert await advance(remoting, 1) == 1
        [found] = await pulled(remoting.client, queue_id=2)
        out = {"TIMER_OUT_MS": parted(found.properties)["TIMER_OUT_MS"]}
        assert parted(found.properties) == {**given, **out, "UNIQ_KEY": UNIQUE, "CLUSTER": "DefaultCluster"}
        assert int(out["TIMER_OUT_MS"]) - due_ms in (0, 1)
        assert found.store_ms - due_ms in (0, 1)
        assert (found.body, found.queue_offset, found.born_ms) == (b"later", 0, parked.born_ms)
        # The sender's id also finds the outcome of the parked record.
        answer = await remoting.client.ok(VIEW, {"offset": str(int(ext["msgId"][16:], 16))})
        assert decode_records(answer.body) == [found]


@pytest.mark.parametrize(
    ("name", "mode"), [("TIMER_DELIVER_MS", "aliyun4"), (START, "aliyun4"), (START, "dongwo")]
)
async def test_timer_instants_are_wall_clock_times(name: str, mode: str) -> None:
    async with running_remoting(clock="real", start_deliver_time=mode) as remoting:
        await advance(remoting, 1000 * HOUR_MS * US_PER_MS)
        instant_ms = wall_us() // US_PER_MS + HOUR_MS
        await sent(remoting.client, properties={name: str(instant_ms)})
        [waiting] = await remoting.broker.pending.list()
        due_us = whole_ms_us(remoting.broker.clock.from_wall(instant_ms * US_PER_MS))
        assert waiting.message.due_us == due_us
        await remoting.broker.mover.move_to_next()
        [found] = await pulled(remoting.client)
        assert parted(found.properties)[name] == str(instant_ms)
        late_ms = found.store_ms - due_us // US_PER_MS
        assert 0 <= late_ms <= (1_200 if mode == "dongwo" else 0)


@pytest.mark.parametrize(
    "given",
    [
        {"TIMER_DELIVER_MS": "1700000000000"},
        {"TIMER_DELAY_SEC": "0"},
        {"TIMER_DELAY_MS": "-1"},
        {"TIMER_DELAY_MS": "5000", "TIMER_OUT_MS": "1"},
        {START: "1700000000000"},
    ],
)
async def test_past_due_times_and_retries_of_delayed_messages_are_delivered_at_once(
    given: dict[str, str],
) -> None:
    async with running_remoting() as remoting:
        ext = await sent(remoting.client, properties={**given, "UNIQ_KEY": UNIQUE})
        [found] = await pulled(remoting.client)
        assert found == await viewed(remoting, ext)
        assert parted(found.properties) == {**given, "UNIQ_KEY": UNIQUE, "CLUSTER": "DefaultCluster"}


@pytest.mark.parametrize(("times", "topic"), [(1, f"%RETRY%{GROUP}"), (17, f"%DLQ%{GROUP}")])
async def test_retry_ignores_the_original_due_time(times: int, topic: str) -> None:
    async with running_remoting() as remoting:
        instant_ms = wall_us() // US_PER_MS + HOUR_MS
        await sent(remoting.client, properties={START: str(instant_ms)})
        await remoting.broker.mover.move_to_next()
        [found] = await pulled(remoting.client)
        again = {**parted(found.properties), "DELAY": "0"}
        await sent(
            remoting.client, b"again", properties=again, topic=f"%RETRY%{GROUP}", reconsume_times=times
        )
        assert [record.body for record in await pulled(remoting.client, topic)] == [b"again"]


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"TIMER_DELAY_MS": "x"}, f"{TIMER}TIMER_DELAY_MS is 'x'; allowed: a whole number of 64 bits"),
        ({"TIMER_DELAY_MS": str(MAX_TIMER_DELAY_MS + 1)}, f"{TIMER}TIMER_DELAY_MS is 259200001, 3d"),
        ({"TIMER_DELAY_SEC": str(1 << 62)}, f"{TIMER}TIMER_DELAY_SEC is {1 << 62}"),
        ({"TIMER_DELAY_MS": "1", "TIMER_DEL_UNIQKEY": "a"}, f"{TIMER}TIMER_DEL_UNIQKEY is not supported"),
        ({START: "tomorrow"}, f"property {START} is 'tomorrow'; allowed: milliseconds since the epoch"),
        ({START: "253402300799999"}, f"property {START} is 253402300799999, "),
    ],
)
async def test_timers_and_instants_are_refused_with_code_13(given: dict[str, str], sentence: str) -> None:
    async with running_remoting() as remoting:
        code, said = await refused(remoting.client, properties=given)
        assert (code, said.startswith(sentence)) == (13, True)
        assert not remoting.broker.pending.count


async def test_mode_dongwo_answers_as_the_patch_does() -> None:
    async with running_remoting(start_deliver_time="dongwo") as remoting:
        instant_ms = wall_us() // US_PER_MS + HOUR_MS
        ext = await sent(remoting.client, properties={START: str(instant_ms)}, queue_id=3)
        assert (ext["msgId"], ext["queueId"], ext["queueOffset"]) == ("0", "1", "0")
        code, said = await refused(remoting.client, properties={START: "x"})
        assert (code, said.startswith("java.lang.NumberFormatException: ")) == (1, True)
