"""The relay with a real Kafka whose topics change, which is down, or which requires an account."""

import asyncio

import pytest
from aiokafka.admin import NewPartitions

from tests.relay.places import PARTITIONS, Place
from tests.relay.real_kafka import RealKafka
from tests.relay.relay_process import ended_relay, relay_process

pytestmark = pytest.mark.interop


async def test_added_partitions_of_the_delay_topic_are_served(place: Place) -> None:
    kafka = place.kafka
    async with (
        kafka.reader(place.real, PARTITIONS) as reader,
        relay_process(kafka, place.delay, "--kafka-option", "metadata_max_age_ms=1000") as relay,
    ):
        async with kafka.admin() as admin:
            await admin.create_partitions({place.delay: NewPartitions(PARTITIONS + 1)})
        await relay.tells(f"serving {PARTITIONS + 1} partitions")
        async with kafka.producer() as producer:  # an older producer may not know the new partition
            await place.send(producer, range(20), over_ms=100, partition=PARTITIONS)
        await reader.until(20)
        await relay.stop()
        place.check(await reader.to_end())


async def test_relay_stops_while_kafka_is_unreachable(place: Place, kafka: RealKafka) -> None:
    async with kafka.producer() as producer, relay_process(kafka, place.delay) as relay:
        await place.send(producer, range(200), over_ms=4_000)
        async with kafka.reader(place.real, PARTITIONS) as reader:
            await reader.until(50)
        kafka.kill()
        try:
            await relay.stop()
        finally:
            kafka.start()
            await kafka.ready()
    async with kafka.reader(place.real, PARTITIONS) as reader, relay_process(kafka, place.delay) as relay:
        await reader.until(200)
        await relay.stop()
        place.check(await reader.to_end())


async def test_it_does_not_start_where_kafka_would_remove_what_is_pending(kafka: RealKafka) -> None:
    await kafka.make_topic("kept-too-short")
    await kafka.make_topic("kept-too-short-pending", retention_ms="1000")
    code, said = await asyncio.to_thread(ended_relay, kafka, "kept-too-short")
    assert code == 3
    assert "the topic kept-too-short-pending has cleanup.policy=delete" in said


async def test_missing_delay_topic_fails_the_start(kafka: RealKafka) -> None:
    code, said = await asyncio.to_thread(ended_relay, kafka, "not-there")
    assert code == 3
    assert "topic not-there does not exist; create it, and restart the relay" in said


def secured(kafka: RealKafka, password: str) -> list[str]:
    """Options of a relay with TLS and an account."""
    options = {
        "security_protocol": "SASL_SSL",
        "ssl_cafile": str(kafka.certificate),
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "relay",
        "sasl_plain_password": password,
    }
    given = [f"--kafka-option={name}={value}" for name, value in options.items()]
    return ["--bootstrap", kafka.secure, *given]


async def test_relay_uses_tls_and_an_account(place: Place, kafka: RealKafka) -> None:
    async with (
        kafka.producer() as producer,
        kafka.reader(place.real, PARTITIONS) as reader,
        relay_process(kafka, place.delay, *secured(kafka, "secret")) as relay,
    ):
        await place.send(producer, range(20), over_ms=100)
        await reader.until(20)
        await relay.stop()
        place.check(await reader.to_end())


async def test_wrong_password_fails_the_start(place: Place, kafka: RealKafka) -> None:
    wrong = secured(kafka, "wrong")
    code, said = await asyncio.to_thread(ended_relay, kafka, place.delay, *wrong)
    assert code == 3
    assert "Error: Kafka cannot be used" in said
