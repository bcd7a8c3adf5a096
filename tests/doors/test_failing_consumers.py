"""Failing consumers by each protocol: the broker's figures agree with the consumers' own counts."""

import re
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from mocketmq.remoting.wire.record import decode_records
from mocketmq.settings import TopicDeclaration
from tests.doors.remoting.consuming import (
    HEART_BEAT,
    RETRY,
    SEND_BACK,
    UNREGISTER,
    beat,
    commit,
    consumer,
    pull,
)
from tests.doors.test_faults import Doors, running_doors
from tests.support.api import metrics_of
from tests.support.brokers import GROUP, TOPIC
from tests.support.command_line import Shell
from tests.support.grpc import GrpcClient, grpc_client

FAILS_BY = ["http", "remoting", "grpc"]


class Consumers:
    """Consumers of one group at one broker, by any protocol."""

    def __init__(self, doors: Doors, grpc: GrpcClient) -> None:
        self.doors = doors
        self.api = doors.api
        self.grpc = grpc
        self.pulled: Counter[str] = Counter()  # the next offset to pull over remoting, by topic

    async def fail(self, door: str, topic: str = TOPIC) -> None:
        """Take the only message and fail, so that it is retried in ten seconds, or later over remoting."""
        if door == "http":
            [taken] = await self.api.receive(topic=topic, group=GROUP)
            await self.api.ok("POST", f"/v1/groups/{GROUP}/give-back", {"receipts": [taken["receipt"]]})
        elif door == "grpc":
            [message] = await self.grpc.receive(GROUP, TOPIC)
            assert (await self.grpc.change(message, 10, GROUP, TOPIC)).status.code == 20_000
        else:
            client = self.doors.client
            [record] = decode_records((await pull(client, self.pulled[topic], topic=topic)).body)
            given = {"offset": str(record.log_offset), "group": GROUP, "delayLevel": "0"}
            await client.ok(SEND_BACK, {**given, "originTopic": TOPIC, "unitMode": "false"})
            self.pulled[topic] = record.queue_offset + 1
            await commit(client, self.pulled[topic], topic=topic)

    async def group(self) -> Any:
        return await self.api.ok("GET", f"/v1/groups/{GROUP}")

    async def advance(self, by: str) -> None:
        await self.api.ok("POST", "/v1/clock/advance", {"by": by})


@asynccontextmanager
async def running_consumers(**changed: Any) -> AsyncIterator[Consumers]:
    async with running_doors(
        topics=(TopicDeclaration(name=TOPIC, read_queues=1, write_queues=1),), **changed
    ) as doors:
        door = doors.api.emulator.doors.grpc
        assert door
        async with grpc_client(door.port) as grpc:
            yield Consumers(doors, grpc)


@pytest.mark.parametrize("door", FAILS_BY)
async def test_a_message_that_waits_for_its_retry_counts_in_its_group(door: str) -> None:
    async with running_consumers() as consumers:
        await consumers.api.send(TOPIC)
        await consumers.fail(door)
        group = await consumers.group()
        assert (group["retrying"], group["in_flight"]) == (1, 0)
        [queue] = [one for one in group["queues"] if one["retrying"]]
        assert queue["topic"] == (TOPIC if door == "grpc" else RETRY)
        assert (await consumers.api.ok("GET", "/v1/groups"))["groups"] == [group]
        gauges = await metrics_of(consumers.api)
        assert gauges["group_retrying_messages", GROUP, queue["topic"]] == 1
        assert gauges["group_in_flight_messages", GROUP, queue["topic"]] == 0
        header, *_ = (await Shell(consumers.api.emulator.url)("groups")).stdout.splitlines()
        assert header.endswith("retrying")
        await consumers.advance("10s")
        group = await consumers.group()
        assert (group["retrying"], group["in_flight"], group["lag"]) == (0, 0, 1)


async def test_a_retry_that_was_cancelled_or_is_held_by_a_fault() -> None:
    async with running_consumers() as consumers:
        await consumers.api.send(TOPIC)
        await consumers.fail("http")
        await consumers.doors.add("hold", topic=RETRY)
        await consumers.advance("1m")
        assert (await consumers.group())["retrying"] == 1
        [held] = (await consumers.api.ok("GET", "/v1/delayed"))["messages"]
        await consumers.api.ok("DELETE", f"/v1/delayed/{held['message_id']}")
        assert (await consumers.group())["retrying"] == 0
        await consumers.api.send(TOPIC)
        await consumers.fail("http")
        await consumers.api.ok("DELETE", "/v1/delayed?level=3")
        assert (await consumers.group())["retrying"] == 0


@pytest.mark.parametrize("door", FAILS_BY)
async def test_a_waiting_retry_counts_after_a_restart(tmp_path: Path, door: str) -> None:
    async with running_consumers(data=str(tmp_path)) as consumers:
        await consumers.api.send(TOPIC)
        await consumers.fail(door)
    async with running_consumers(data=str(tmp_path)) as consumers:
        assert (await consumers.group())["retrying"] == 1
        await consumers.advance("10s")
        assert (await consumers.group())["retrying"] == 0


async def test_a_consumer_that_extends_its_time_still_has_the_message(tmp_path: Path) -> None:
    async with running_consumers(data=str(tmp_path)) as consumers:
        await consumers.api.send(TOPIC)
        [taken] = await consumers.api.receive(topic=TOPIC, group=GROUP)
        extended = {"receipts": [taken["receipt"]], "invisible_ms": 60_000}
        await consumers.api.ok("POST", f"/v1/groups/{GROUP}/extend", extended)
        group = await consumers.group()
        assert (group["retrying"], group["in_flight"]) == (0, 1)
    async with running_consumers(data=str(tmp_path)) as consumers:
        group = await consumers.group()
        assert (group["retrying"], group["in_flight"]) == (0, 1)


@pytest.mark.parametrize(("door", "state"), [("http", "to be retried"), ("grpc", "postponed")])
async def test_a_failed_message_is_told_from_one_in_flight(door: str, state: str) -> None:
    async with running_consumers() as consumers:
        await consumers.api.send(TOPIC)
        await consumers.fail(door)
        [leak] = (await consumers.api.ok("GET", f"/v1/leaks?group={GROUP}"))["leaks"]
        assert leak["state"] == state
        assert re.search(rf"{state} at {GROUP}, until [0-9: -]+, in 10s$", leak["text"])


async def kinds_of_life(consumers: Consumers, message_id: str) -> list[str]:
    """Return the kinds of events that the group caused in the message's life."""
    life = (await consumers.api.ok("GET", f"/v1/messages/{message_id}"))["life"]
    return [one["kind"] for one in life if one["group"] == GROUP]


@pytest.mark.parametrize("door", ["http", "grpc"])
async def test_a_consumer_that_hangs_until_the_message_is_dead(door: str) -> None:
    async with running_consumers() as consumers:
        await consumers.api.ok("PUT", f"/v1/groups/{GROUP}", {"max_retries": 1})
        sent = await consumers.api.send(TOPIC)
        for _ in range(2):
            if door == "http":
                assert len(await consumers.api.receive(TOPIC, GROUP, invisible_ms=30_000)) == 1
            else:
                assert len(await consumers.grpc.receive(GROUP, TOPIC, invisible_s=30)) == 1
            await consumers.advance("30s")
        if door == "grpc":  # the proxy creates dead letters when clients receive again
            assert await consumers.grpc.receive(GROUP, TOPIC) == []
        assert await kinds_of_life(consumers, sent["message_id"]) == [*["taken", "expired"] * 2, "dead"]
        [event, *_] = reversed((await consumers.api.ok("GET", "/v1/events"))["events"])
        assert event["kind"] == "dead"


async def test_a_consumer_by_grpc_that_fails_until_the_message_is_dead() -> None:
    async with running_consumers() as consumers:
        await consumers.api.ok("PUT", f"/v1/groups/{GROUP}", {"max_retries": 1})
        sent = await consumers.api.send(TOPIC)
        for _ in range(2):
            await consumers.fail("grpc")
            await consumers.advance("10s")
        assert await consumers.grpc.receive(GROUP, TOPIC) == []
        assert await kinds_of_life(consumers, sent["message_id"]) == [*["taken", "postponed"] * 2, "dead"]


async def test_what_a_pulling_consumer_has_not_committed_is_in_flight() -> None:
    async with running_consumers() as consumers:
        await consumers.api.send(TOPIC)
        client = consumers.doors.client
        await commit(client, 0)
        await pull(client)
        await pull(client, 1)  # the client has the first message, and pulls the next
        assert (await consumers.group())["in_flight"] == 1
        await commit(client, 1)
        assert (await consumers.group())["in_flight"] == 0


@pytest.mark.parametrize("door", FAILS_BY)
async def test_attempts_are_counted_as_the_consumer_counts_them(door: str) -> None:
    async with running_consumers() as consumers:
        sent = await consumers.api.send(TOPIC)
        await consumers.fail(door)
        for topic, delay in ((RETRY, "10s"), (RETRY, "30s")):
            await consumers.advance(delay)
            await consumers.fail(door, TOPIC if door == "grpc" else topic)
        life = (await consumers.api.ok("GET", f"/v1/messages/{sent['message_id']}"))["life"]
        takes = [one["text"] for one in life if one["kind"] == "taken"]
        counted = [f"taken by {GROUP}{nth}" for nth in ("", " for the 2nd time", " for the 3rd time")]
        assert takes == counted
        events = (await consumers.api.ok("GET", "/v1/events"))["events"]
        assert [one["text"].partition(":")[0] for one in events if one["kind"] == "taken"] == counted


async def test_a_dead_letter_is_taken_for_the_first_time() -> None:
    async with running_consumers() as consumers:
        await consumers.api.ok("PUT", f"/v1/groups/{GROUP}", {"max_retries": 0})
        sent = await consumers.api.send(TOPIC)
        await consumers.fail("http")
        await consumers.api.receive(f"%DLQ%{GROUP}", "undertaker")
        life = (await consumers.api.ok("GET", f"/v1/messages/{sent['message_id']}"))["life"]
        assert life[-2]["text"] == "taken by undertaker"


@pytest.mark.parametrize("has_offset", [True, False])
async def test_what_the_last_consumer_left_unacknowledged_is_to_be_redelivered(has_offset: bool) -> None:
    async with running_consumers() as consumers:
        await consumers.api.send(TOPIC)
        client = consumers.doors.client

        async def hang() -> None:
            await client.ok(HEART_BEAT, body=beat(consumer()))
            if has_offset:
                await commit(client, 0)
            await pull(client)
            await pull(client, 1)

        async def state() -> tuple[int, str, str]:
            [leak] = (await consumers.api.ok("GET", "/v1/leaks"))["leaks"]
            [message] = (await consumers.api.ok("GET", "/v1/message-states"))["messages"]
            return (await consumers.group())["in_flight"], leak["state"], message["consumption"]

        await hang()
        assert await state() == (1, "in flight", "in flight")
        await client.ok(UNREGISTER, {"clientID": "one", "consumerGroup": GROUP})
        assert await state() == (0, "to be redelivered", "to be redelivered")
        await hang()
        assert await state() == (1, "in flight", "in flight")
        await commit(client, 1)
        assert (await consumers.api.ok("GET", "/v1/leaks"))["leaks"] == []


async def test_pulls_of_tools_and_of_broadcasts_take_nothing() -> None:
    async with running_consumers() as consumers:
        await consumers.api.send(TOPIC)
        client = consumers.doors.client
        await client.ok(HEART_BEAT, body=beat(consumer(messageModel="BROADCASTING")))
        for group in (GROUP, "TOOLS_CONSUMER"):
            await pull(client, consumerGroup=group)
            await pull(client, 1, consumerGroup=group)
        [message] = (await consumers.api.ok("GET", "/v1/message-states"))["messages"]
        assert message["consumption"] == "never taken"
        assert {queue["topic"] for queue in (await consumers.group())["queues"]} == {RETRY}
