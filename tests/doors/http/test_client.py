"""The Python client against a real broker process."""

from collections.abc import AsyncIterator

import pytest

from mocketmq import BrokerError, Client, UnreachableError, body_of, outgoing
from mocketmq.errors import InvalidArgumentError
from tests.support.process import BrokerProcess, forked_broker


@pytest.fixture
async def process() -> AsyncIterator[BrokerProcess]:
    async with forked_broker("--clock", "manual") as process:
        yield process


@pytest.fixture
async def broker(process: BrokerProcess) -> AsyncIterator[Client]:
    async with Client(process.url) as client:
        yield client


async def test_a_single_message_is_settled_like_several(broker: Client) -> None:
    await broker.send("orders", "x")
    [message] = await broker.receive("orders", group="g")
    extended = await broker.extend("g", message, "1m")
    assert extended == {"settled": [message["receipt"]], "failed": []}
    assert (await broker.give_back("g", message, -1))["settled"] == [message["receipt"]]


async def test_send_advance_receive_and_acknowledge(broker: Client) -> None:
    sent = await broker.send("orders", "hi", delay_level=3)
    assert sent["due_ms"] == sent["store_ms"] + 10_000
    assert await broker.receive("orders", group="g") == []
    assert (await broker.advance("9999ms"))["fired"] == 0
    assert (await broker.advance("1ms"))["fired"] == 1
    (message,) = await broker.receive("orders", group="g")
    assert (message["body"], message["store_ms"]) == ("hi", sent["due_ms"])
    assert message["message_id"] == sent["message_id"]
    assert await broker.acknowledge("g", [message]) == {"settled": [message["receipt"]], "failed": []}


async def test_bodies_and_options_survive_a_round_trip(broker: Client) -> None:
    await broker.put_topic("orders", read_queues=2, write_queues=2)
    options = {"tag": "paid", "keys": ["a", "b"], "properties": {"region": "eu"}, "queue_id": 1}
    await broker.send("orders", "naïve ☃", **options)  # type: ignore[arg-type]
    await broker.send_batch("orders", [outgoing(b"\xff\x00", queue_id=1), outgoing("late", delay_level=1)])
    assert not (await broker.browse("orders", 1, sql="price > 10"))["messages"]
    page = await broker.browse("orders", 1)
    assert [body_of(message) for message in page["messages"]] == ["naïve ☃".encode(), b"\xff\x00"]
    first = page["messages"][0]
    assert (first["tag"], first["keys"], first["properties"]["region"]) == ("paid", ["a", "b"], "eu")
    assert [each["message_id"] for each in await broker.messages_by_key("b")] == [first["message_id"]]
    assert await broker.messages_by_key("b", topic="orders") == await broker.messages_by_key("b")


async def test_a_delay_needs_no_level(broker: Client) -> None:
    now_ms = (await broker.clock())["now_ms"]
    assert (await broker.send("orders", "1", delay_ms=1_234))["due_ms"] == now_ms + 1_234
    assert (await broker.send("orders", "2", start_deliver_ms=1))["due_ms"] is None
    (sent,) = await broker.send_batch("orders", [outgoing("3", delay_ms=0)])
    assert sent["due_ms"] is None


async def test_give_back_and_extend(broker: Client) -> None:
    await broker.send("orders", "again")
    taken = await broker.receive("orders", group="g", max_messages=8)
    await broker.extend("g", taken, "1h")
    await broker.advance("59m")
    assert await broker.receive("orders", group="g") == []
    await broker.give_back("g", taken, delay_level=1)
    await broker.advance("1s")
    (again,) = await broker.receive("orders", group="g", wait="1s", tags="*")
    assert (again["body"], again["attempt"], again["topic"]) == ("again", 2, "orders")
    assert [group["name"] for group in await broker.groups()] == ["g"]


async def test_delayed_messages_are_listed_and_changed(broker: Client) -> None:
    first, second = await broker.send_batch(
        "orders", [outgoing("1", delay_level=4), outgoing("2", delay_level=5)]
    )
    page = await broker.delayed(topic="orders", max_messages=1)
    assert [each["message_id"] for each in page["messages"]] == [first["message_id"]]
    page = await broker.delayed(after=page["next_after"])
    assert [each["message_id"] for each in page["messages"]] == [second["message_id"]]
    await broker.cancel(first["message_id"])
    await broker.deliver(second["message_id"])
    assert (await broker.message(first["message_id"]))["state"] == "cancelled"
    assert (await broker.wait_delivered("orders", 1, wait="30s"))["reached"]
    assert sum(level["pending"] for level in (await broker.levels())["levels"]) == 0


async def test_the_clock_topics_groups_and_reset(broker: Client) -> None:
    sent = await broker.send("orders", "x", delay_level=2)
    assert (await broker.clock())["next_due_ms"] == sent["due_ms"]
    assert (await broker.move_to_next())["now_ms"] == sent["due_ms"]
    assert (await broker.move_to(sent["due_ms"] + 1))["now_ms"] == sent["due_ms"] + 1
    assert "orders" in [topic["name"] for topic in await broker.topics()]
    await broker.reset("orders")
    await broker.reset()
    assert all(
        queue["max_offset"] == queue["min_offset"] for queue in (await broker.topic("orders"))["queues"]
    )
    await broker.put_group("g", max_retries=2)
    assert (await broker.group("g"))["max_retries"] == 2
    assert await broker.delete_group("g") == {"deleted": "g"}
    assert await broker.delete_topic("orders") == {"deleted": "orders", "cancelled": 0}
    assert "orders" not in [topic["name"] for topic in await broker.topics()]
    assert (await broker.info())["clock"] == "manual"


async def test_refusal_raises_an_error_naming_the_field(broker: Client) -> None:
    with pytest.raises(BrokerError) as refusal:
        await broker.send("bad topic", "x")
    error = refusal.value
    assert (error.status, error.field) == (400, "topic")
    assert error.title
    assert str(error) == error.detail
    with pytest.raises(BrokerError) as missing:
        await broker.message("00")
    assert missing.value.status == 404


async def test_bad_duration_is_refused_before_the_request(broker: Client) -> None:
    with pytest.raises(InvalidArgumentError, match="wait is 'soon'"):
        await broker.receive("orders", group="g", wait="soon")


async def test_a_token_is_sent() -> None:
    async with forked_broker("--token", "secret") as process:
        async with Client(process.url, "secret") as broker:
            await broker.send("orders", "x")
        async with Client(process.url, "wrong") as broker:
            with pytest.raises(BrokerError) as refusal:
                await broker.send("orders", "x")
            assert refusal.value.status == 401


async def test_an_unreachable_broker_is_reported_in_a_sentence(
    process: BrokerProcess, broker: Client
) -> None:
    process.kill()
    await process.wait()
    with pytest.raises(UnreachableError, match=rf"{process.url}.*`mocketmq"):
        await broker.clock()


async def test_a_broker_that_disconnects_is_reported_in_a_sentence(
    process: BrokerProcess, broker: Client
) -> None:
    await broker.clock()
    process.kill()
    await process.wait()
    with pytest.raises(UnreachableError, match=process.url):
        await broker.send("orders", "x")


async def test_an_invalid_address_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="url is 'localhost:9877'"):
        Client("localhost:9877")


async def test_an_unentered_client_raises_an_error() -> None:
    with pytest.raises(RuntimeError, match="async with"):
        await Client().clock()
