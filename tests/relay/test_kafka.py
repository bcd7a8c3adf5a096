"""The relay with a real Kafka delivers each message once and never early, whichever process is killed."""

import json
import signal
from datetime import UTC, datetime, timedelta

import pytest

from tests.relay.places import PARTITIONS, Place, as_headers, now_ms
from tests.relay.real_kafka import RealKafka
from tests.relay.relay_process import relay_process

pytestmark = pytest.mark.interop


async def test_a_due_message_reaches_its_real_topic_unchanged(place: Place) -> None:
    kafka, own = place.kafka, ("trace", b"\xff\x00")
    async with kafka.producer() as producer, kafka.reader(place.real, PARTITIONS) as reader:
        async with relay_process(kafka, place.delay, "--json-bodies") as relay:
            soon_ms = now_ms() + 1_500
            start = as_headers({"RELAY_TOPIC": place.real, "__STARTDELIVERTIME": str(soon_ms)})
            delay = as_headers({"RELAY_TOPIC": place.real, "RELAY_DELAY_MS": "1000"})
            at = datetime.now(UTC) + timedelta(seconds=2)
            body = {"actualTopic": place.real, "actualTime": f"{at:%Y-%m-%d %H:%M:%S}"}
            sent = await producer.send_and_wait(place.delay, b"start", b"key", headers=[own, *start])
            await producer.send_and_wait(
                place.delay, b"delay", None, headers=[*delay, own], timestamp_ms=now_ms()
            )
            await producer.send_and_wait(place.delay, None, b"key", headers=delay)
            await producer.send_and_wait(place.delay, json.dumps(body).encode(), b"key")
            records = {record.value: record for record in await reader.until(4)}
            await relay.stop()
        assert len(await reader.to_end()) == 4
    assert records.keys() == {b"start", b"delay", None, json.dumps(body).encode()}
    one = records[b"start"]
    assert (one.key, one.timestamp >= soon_ms) == (b"key", True)
    assert dict(one.headers) == {
        "trace": b"\xff\x00",
        "__STARTDELIVERTIME": str(soon_ms).encode(),
        "RELAY_ID": f"{place.delay}-{sent.partition}/{sent.offset}".encode(),
        "RELAY_SENT_MS": str(sent.timestamp).encode(),
    }
    assert records[b"delay"].key is None
    assert {records[value].partition for value in (None, b"start")} == {one.partition}  # by their key
    assert records[json.dumps(body).encode()].timestamp >= int(at.timestamp()) * 1_000


async def test_messages_that_are_wrong_are_refused_with_a_sentence_and_block_nobody(place: Place) -> None:
    kafka, refused = place.kafka, f"{place.delay}-refused"
    small = f"{place.real}-small"
    await kafka.make_topic(small, max_message_bytes="2000")
    wrong = {
        b"no topic": {"RELAY_DELAY_MS": "1"},
        b"no time": {"RELAY_TOPIC": place.real},
        b"bad time": {"RELAY_TOPIC": place.real, "RELAY_DELAY_MS": "soon"},
        b"too long": {"RELAY_TOPIC": place.real, "RELAY_DELAY_MS": str(500 * 86_400_000)},
        b"no such topic": {"RELAY_TOPIC": "nowhere", "RELAY_DELAY_MS": "1"},
        b"a loop": {"RELAY_TOPIC": place.delay, "RELAY_DELAY_MS": "1"},
        b"large" * 1_000: {"RELAY_TOPIC": small, "RELAY_DELAY_MS": "1"},
    }
    async with (
        kafka.producer() as producer,
        kafka.reader(place.real, PARTITIONS) as reader,
        relay_process(kafka, place.delay) as relay,
    ):
        for value, words in wrong.items():
            await producer.send_and_wait(place.delay, value, b"key", headers=as_headers(words))
        await place.send(producer, range(20), over_ms=100)
        await reader.until(20)
        async with kafka.reader(refused, PARTITIONS) as outcast:
            records = await outcast.until(len(wrong))
            await relay.stop()
            assert len(await outcast.to_end()) == len(wrong)
        place.check(await reader.to_end())
    why = {record.value: dict(record.headers)["RELAY_REFUSED"].decode() for record in records}
    assert why.keys() == wrong.keys()
    assert why[b"no topic"] == "RELAY_TOPIC is missing; needed: the name of the real topic"
    assert why[b"no such topic"] == "the real topic nowhere does not exist"
    assert "MessageSizeTooLarge" in why[b"large" * 1_000]
    for record in records:
        assert {(name, value.encode()) for name, value in wrong[record.value].items()} <= {*record.headers}


async def test_after_the_kill_of_a_relay_another_one_sends_each_message_once(place: Place) -> None:
    kafka = place.kafka
    async with kafka.producer() as producer, kafka.reader(place.real, PARTITIONS) as reader:
        async with relay_process(kafka, place.delay) as relay:
            await place.send(producer, range(400), over_ms=4_000)
            await reader.until(100)
            await relay.kill()
        async with relay_process(kafka, place.delay) as relay:
            await place.send(producer, range(400, 500), over_ms=500)
            await reader.until(500)
            await relay.stop()
        place.check(await reader.to_end())


async def test_relays_that_join_and_leave_share_the_partitions(place: Place) -> None:
    kafka = place.kafka
    async with (
        kafka.producer() as producer,
        kafka.reader(place.real, PARTITIONS) as reader,
        relay_process(kafka, place.delay) as first,
    ):
        await first.tells(f"serving {PARTITIONS} partitions")
        await place.send(producer, range(300), over_ms=3_000)
        async with relay_process(kafka, place.delay) as second:
            await second.tells("serving 2 partitions")
            await first.tells("serving 2 partitions")
            await place.send(producer, range(300, 500), over_ms=500)
            await reader.until(500)
            await second.stop()
        await first.tells(f"serving {PARTITIONS} partitions", count=2)
        await place.send(producer, range(500, 600), over_ms=100)
        await reader.until(600)
        await first.stop()
        place.check(await reader.to_end())


async def test_suspended_relay_notices_its_lost_partitions(place: Place) -> None:
    kafka = place.kafka
    async with (
        kafka.producer() as producer,
        kafka.reader(place.real, PARTITIONS) as reader,
        relay_process(kafka, place.delay) as first,
    ):
        await place.send(producer, range(300), over_ms=3_000)
        await reader.until(50)
        first.signal(signal.SIGSTOP)
        async with relay_process(kafka, place.delay) as second:
            await second.tells(f"serving {PARTITIONS} partitions")
            first.signal(signal.SIGCONT)
            await place.send(producer, range(300, 600), over_ms=1_000)
            await reader.until(600)
            await first.tells("serving", count=2)
            await second.stop()
        await place.send(producer, range(600, 650), over_ms=100)
        await reader.until(650)
        await first.stop()
        place.check(await reader.to_end())


async def test_killed_broker_loses_and_repeats_no_message(place: Place, kafka: RealKafka) -> None:
    async with kafka.reader(place.real, PARTITIONS) as reader, relay_process(kafka, place.delay) as relay:
        async with kafka.producer() as producer:
            await place.send(producer, range(400), over_ms=4_000)
        await reader.until(100)
        kafka.kill()
        kafka.start()
        await kafka.ready()
        await reader.until(400)
        await relay.stop()
        place.check(await reader.to_end())
