"""What clients receive when they start (routes, assignments, settings), and how long they hold messages."""

import asyncio
import logging
import math
import ssl
from typing import Any

import pytest
from grpclib.const import Status
from grpclib.exceptions import GRPCError

from mocketmq.broker.consuming.pops import Pops
from mocketmq.broker.consuming.receiver import InFlightMessage
from mocketmq.clock import US_PER_MS, US_PER_S
from mocketmq.grpc_proxy import receiving
from mocketmq.grpc_proxy.exchange import Exchange
from mocketmq.grpc_proxy.messages import us_of
from mocketmq.grpc_proxy.telemetry import MAX_TOPICS
from tests.support.grpc import bodies, grpc_client, running_grpc
from tests.support.patience import PATIENCE_S

ENDPOINTS = {"scheme": 3, "addresses": [{"host": "mq.example", "port": 443}]}
MINUTE_US = 60 * US_PER_S


async def test_route_names_the_address_used_by_the_client() -> None:
    async with running_grpc() as (_, client):
        route = await client.call("QueryRoute", topic={"name": "orders"}, endpoints=ENDPOINTS)
        assert route.status.code == 20_000
        assert [queue.id for queue in route.message_queues] == [0, 1, 2, 3]
        queue = route.message_queues[0]
        assert (queue.permission, queue.broker.id, list(queue.accept_message_types)) == (4, 0, [1, 2, 3, 4])
        assert queue.broker.name
        [address] = queue.broker.endpoints.addresses
        assert (queue.broker.endpoints.scheme, address.host, address.port) == (3, "mq.example", 443)


async def test_assignment_has_all_queues() -> None:
    async with running_grpc() as (_, client):
        answer = await client.call(
            "QueryAssignment", topic={"name": "orders"}, group={"name": "g"}, endpoints=ENDPOINTS
        )
        [assignment] = answer.assignments
        assert assignment.message_queue.id == -1
        assert assignment.message_queue.broker.name
        assert not assignment.message_queue.accept_message_types


async def test_clients_are_removed_with_or_without_a_group_name() -> None:
    async with running_grpc() as (_, client):
        for group, code in (({"name": "billing"}, 20_000), (None, 20_000), ({"name": "a b"}, 40_003)):
            gone = await client.call("NotifyClientTermination", group=group)
            assert gone.status.code == code


@pytest.mark.parametrize(
    ("topic", "code"), [("", 40_002), ("a b", 40_002), ("TBW102", 40_002), ("orders", 40_402)]
)
async def test_routes_of_invalid_topics_are_refused(topic: str, code: int) -> None:
    async with running_grpc(auto_create_topics=False) as (_, client):
        route = await client.call("QueryRoute", topic={"name": topic}, endpoints=ENDPOINTS)
        assert (route.status.code, len(route.message_queues)) == (code, 0)


async def test_dead_letter_topic_has_a_route_before_any_dead_letter() -> None:
    async with running_grpc() as (_, client):
        await client.receive("billing", "orders")
        for topic, code in (("%DLQ%billing", 20_000), ("%DLQ%nobody", 40_402)):
            route = await client.call("QueryRoute", topic={"name": topic}, endpoints=ENDPOINTS)
            assert route.status.code == code


async def test_answer_to_settings_has_the_effective_ones() -> None:
    async with running_grpc() as (_, client), client.telemetry() as telemetry:
        answer = await telemetry.produce("orders")
        assert answer.status.code == 20_000
        assert (
            answer.settings.publishing.max_body_size,
            answer.settings.publishing.validate_message_type,
        ) == (
            4_194_304,
            True,
        )
        assert answer.settings.backoff_policy.exponential_backoff.multiplier == 2
        async with grpc_client(client.port, "other@1@0@x") as other, other.telemetry() as stream:
            answer = await stream.consume()
            assert answer.settings.subscription.receive_batch_size == 32
            assert answer.settings.subscription.long_polling_timeout.seconds == 20
            assert answer.settings.backoff_policy.max_attempts == 17
            backoffs = [each.seconds for each in answer.settings.backoff_policy.customized_backoff.next]
            assert (len(backoffs), backoffs[:3]) == (18, [1, 5, 10])
            assert not answer.settings.subscription.fifo


@pytest.mark.parametrize(
    ("limit_us", "asked_s", "told_us"),
    [
        (30 * US_PER_S, 7, 7 * US_PER_S),
        (30 * US_PER_S, 30, 20 * US_PER_S),
        (US_PER_S, 30, US_PER_S),
        (US_PER_S, None, US_PER_S),
    ],
)
async def test_a_consumers_polling_time_is_capped(limit_us: int, asked_s: int | None, told_us: int) -> None:
    asked = {} if asked_s is None else {"long_polling_timeout": {"seconds": asked_s}}
    async with running_grpc(max_long_poll_us=limit_us) as (_, client), client.telemetry() as telemetry:
        subscription = {"group": {"name": "billing"}, "subscriptions": [], **asked}
        answer = await telemetry.settings(client_type=2, subscription=subscription)
        assert us_of(answer.settings.subscription.long_polling_timeout) == told_us


async def test_settings_without_a_client_kind_end_the_stream() -> None:
    async with running_grpc() as (_, client):
        with pytest.raises(GRPCError) as refused:
            async with client.telemetry() as telemetry:
                await telemetry.settings(client_type=1)
        assert refused.value.status is Status.INVALID_ARGUMENT


@pytest.mark.parametrize("role", ["publishing", "subscription"])
async def test_settings_have_a_limited_number_of_topics(role: str) -> None:
    topics = [{"name": f"t{number}"} for number in range(MAX_TOPICS + 1)]
    entries = topics if role == "publishing" else [{"topic": topic} for topic in topics]
    field = "topics" if role == "publishing" else "subscriptions"
    group = {} if role == "publishing" else {"group": {"name": "billing"}}
    async with running_grpc() as (_, client):
        async with client.telemetry() as telemetry:
            await telemetry.settings(client_type=1, **{role: {field: entries[1:], **group}})
        with pytest.raises(GRPCError) as refused:
            async with client.telemetry() as telemetry:
                await telemetry.settings(client_type=1, **{role: {field: entries, **group}})
        assert refused.value.status is Status.INVALID_ARGUMENT
        assert refused.value.message is not None
        assert "allowed: up to 1024 topics" in refused.value.message


async def test_a_client_without_an_id_is_refused() -> None:
    async with running_grpc() as (_, client):
        del client.metadata["x-mq-client-id"]
        beat = await client.call("Heartbeat", client_type=1)
        assert beat.status.code == 40_017


@pytest.mark.parametrize("wait_s", [20, None])
async def test_arriving_message_ends_a_long_poll(wait_s: int | None) -> None:
    async with running_grpc() as (_, client):
        polling = asyncio.create_task(client.receive(wait_s=wait_s))
        await client.call("Heartbeat", client_type=3)  # on the same connection, behind the poll
        await client.send(client.message("now"))
        assert bodies(await polling) == ["now"]


async def test_a_push_consumer_holds_its_messages_while_it_lives() -> None:
    async with running_grpc() as (emulator, client):
        async with client.telemetry() as telemetry:
            await telemetry.consume()
            await client.send(client.message("slow"))
            [got] = await client.receive(auto_renew=True)
            await emulator.broker.mover.advance(60 * MINUTE_US)
            assert await client.receive(auto_renew=True) == []
            assert (await client.ack(got)).status.code == 20_000
            await client.send(client.message("lost"))
            [_] = await client.receive(auto_renew=True)
            gone = await client.call("NotifyClientTermination", group={"name": "billing"})
            assert gone.status.code == 20_000
        await emulator.broker.mover.advance(1 * US_PER_S)
        [again] = await client.receive()
        assert (again.body, again.system_properties.delivery_attempt) == (b"lost", 2)


async def test_ended_stream_of_a_push_consumer_frees_its_messages(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with running_grpc() as (emulator, client):
        await client.send(client.message("lost"))
        door = emulator.doors.grpc
        assert door
        async with grpc_client(door.port, "short@1@0@x") as short, short.telemetry() as telemetry:
            await telemetry.consume()
            [_] = await short.receive(auto_renew=True)
        while await emulator.broker.mover.advance(1 * US_PER_S):
            if got := await client.receive():
                break
        assert bodies(got) == ["lost"]
    assert [one for one in caplog.records if one.levelno >= logging.WARNING] == []


async def test_renewal_of_a_held_message_ends_after_three_hours() -> None:
    async with running_grpc() as (emulator, client), client.telemetry() as telemetry:
        await telemetry.consume()
        await client.send(client.message("stuck"))
        [_] = await client.receive(auto_renew=True)
        await emulator.broker.mover.advance(5 * 60 * MINUTE_US)
        [again] = await client.receive(auto_renew=True)
        assert again.system_properties.delivery_attempt == 2


async def test_an_invisible_duration_has_limits() -> None:
    async with running_grpc() as (_, client):
        status, _ = await client.try_receive("g", "orders", invisible_s=9)
        assert status.code == 40_011
        await client.send(client.message("m"))
        [got] = await client.receive()
        changed = await client.change(got, 12 * 3_600 + 1)
        assert (changed.status.code, changed.receipt_handle) == (40_011, got.system_properties.receipt_handle)
        assert (await client.change(got, 0)).status.code == 20_000
        [again] = await client.receive()
        assert again.system_properties.delivery_attempt == 2
        dead = await client.call(
            "ForwardMessageToDeadLetterQueue",
            topic={"name": "orders"},
            group={"name": "billing"},
            receipt_handle=again.system_properties.receipt_handle,
        )
        assert dead.status.code == 20_000
        assert bodies(await client.receive("undertaker", "%DLQ%billing")) == ["m"]


async def test_a_changed_invisible_duration_makes_a_new_receipt_handle() -> None:
    async with running_grpc() as (emulator, client):
        await client.send(client.message("m"))
        [got] = await client.receive()
        first = got.system_properties.receipt_handle
        changed = await client.change(got, 60)
        assert (changed.status.code, changed.receipt_handle == first) == (20_000, False)
        assert (await client.ack(got)).status.code == 40_013
        again = await client.change(got, 60)
        assert (again.status.code, again.receipt_handle) == (40_013, first)
        await emulator.broker.mover.advance(MINUTE_US - 1)
        assert await client.receive() == []
        got.system_properties.receipt_handle = changed.receipt_handle
        assert (await client.ack(got)).status.code == 20_000
        await emulator.broker.mover.advance(MINUTE_US)
        assert await client.receive() == []


async def test_renewed_receipt_keeps_its_handle() -> None:
    async with running_grpc() as (emulator, client), client.telemetry() as telemetry:
        await telemetry.consume()
        await client.send(client.message("slow"))
        [got] = await client.receive(auto_renew=True)
        await emulator.broker.mover.advance(5 * MINUTE_US)
        changed = await client.change(got, 10)
        assert changed.status.code == 20_000
        await emulator.broker.mover.advance(10 * US_PER_S)
        [again] = await client.receive()
        got.system_properties.receipt_handle = changed.receipt_handle
        assert (await client.ack(got)).status.code == 40_013
        assert (await client.ack(again)).status.code == 20_000


async def test_tls_and_plaintext_share_the_port() -> None:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    async with running_grpc() as (emulator, plain):
        door = emulator.doors.grpc
        assert door
        async with grpc_client(door.port, "tls@1@0@x", ssl=context) as secure:
            _, writer = await asyncio.open_connection("127.0.0.1", door.port, ssl=context)
            assert writer.get_extra_info("ssl_object").selected_alpn_protocol() == "h2"
            writer.close()
            big = "x" * 4_000_000
            await secure.send(secure.message(big))
            [got] = await plain.receive()
            assert got.body.decode() == big


@pytest.mark.parametrize("rpc", ["PullMessage", "UpdateOffset", "GetOffset", "QueryOffset", "Unheard"])
async def test_unserved_rpc_is_unimplemented(rpc: str) -> None:
    async with running_grpc() as (_, client):
        with pytest.raises(GRPCError) as refused:
            await client.call("Heartbeat", path=rpc)
        assert refused.value.status is Status.UNIMPLEMENTED


@pytest.mark.parametrize(
    ("named_s", "remaining_s", "timeout_s", "wait_s"),
    [
        (None, 13, 3, 11.5),
        (None, 13, 0, 13),
        (None, 23, 3, 20),
        (None, 6, 3, 5),
        (None, 4, 3, 5),
        (None, math.inf, 3, 20),
        (7, 13, 3, 7),
        (1, 13, 3, 1),
        (-1, 13, 3, 0),
        (30, 13, 3, 20),
    ],
)
def test_polling_time_respects_deadline_and_request_timeout(
    named_s: int | None, remaining_s: float, timeout_s: int, wait_s: float
) -> None:
    named_us = None if named_s is None else named_s * US_PER_S
    assert receiving.poll_us(named_us, remaining_s * US_PER_S, timeout_s * US_PER_S) == wait_s * US_PER_S


@pytest.mark.parametrize(
    ("remaining_s", "timeout_s", "wait_s"),
    [(13, 3, 11.5), (13, None, 12.7), (4, 3, 3.7), (600, 3, 20), (None, 3, 20)],
)
async def test_receive_without_polling_time_waits_until_its_deadline(
    monkeypatch: pytest.MonkeyPatch, remaining_s: float | None, timeout_s: int | None, wait_s: float
) -> None:
    waits = []

    async def at_once(*_: Any, wait_s: float, **__: Any) -> list[InFlightMessage]:
        waits.append(wait_s)
        return []

    monkeypatch.setattr(Pops, "pop_within_retries", at_once)
    monkeypatch.setattr(Exchange, "remaining_s", remaining_s)
    timeout = {} if timeout_s is None else {"request_timeout": {"seconds": timeout_s}}
    async with running_grpc() as (_, client), client.telemetry() as telemetry:
        await telemetry.settings(client_type=2, subscription={"group": {"name": "billing"}}, **timeout)
        assert await client.receive(wait_s=None) == []
    assert waits == [wait_s]


@pytest.mark.parametrize(("wait_s", "auto_renew"), [(60, True), (60, False), (None, True)])
async def test_a_receive_waits_no_longer_than_the_setting_allows(
    monkeypatch: pytest.MonkeyPatch, wait_s: int | None, auto_renew: bool
) -> None:
    monkeypatch.setattr(receiving, "LONGEST_POLL_US", MINUTE_US)
    async with running_grpc(max_long_poll_us=100 * US_PER_MS) as (_, client), asyncio.timeout(PATIENCE_S):
        client.patience_s = 2 * PATIENCE_S
        assert await client.receive(wait_s=wait_s, auto_renew=auto_renew) == []


@pytest.mark.parametrize(
    ("ms", "words"),
    [
        (9_999, "the invisibleTime is too small. min is 10000; invisible_duration is 9999 ms"),
        (43_200_001, "the invisibleTime is too large. max is 43200000; invisible_duration is 43200001 ms"),
    ],
)
async def test_invisible_time_out_of_bounds_is_refused_as_by_the_proxy(ms: int, words: str) -> None:
    async with running_grpc() as (_, client):
        status, _ = await client.try_receive("billing", "orders", invisible_s=ms / 1_000)
        assert (status.code, status.message) == (40_011, words)


async def test_acknowledgement_status_is_the_name_of_the_code() -> None:
    async with running_grpc() as (_, client):
        await client.send(client.message("a"))
        [one] = await client.receive()
        wrong = {"message_id": "x", "receipt_handle": "x"}
        right = {"message_id": "a", "receipt_handle": one.system_properties.receipt_handle}
        for entries, name in (
            ([wrong], "INVALID_RECEIPT_HANDLE"),
            ([right, wrong], "MULTIPLE_RESULTS"),
        ):
            answer = await client.call(
                "AckMessage", group={"name": "billing"}, topic={"name": "orders"}, entries=entries
            )
            assert answer.status.message == name
            assert "x" in answer.entries[-1].status.message
