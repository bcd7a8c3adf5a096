"""Transactions of any client; its driver decides by the properties of a message."""

import asyncio
from typing import Any

from mocketmq.client.answer import JsonObject
from tests.clients.remoting.conftest import RemotingBroker
from tests.clients.remoting.driver import WAIT_S, Driver

GROUP = "GID_transactions"
UNDECIDED = "TRANS_CHECK_MAX_TIME_TOPIC"


async def prepare(
    driver: Driver, topic: str, decision: str, later: str = "rollback", **more: str
) -> dict[str, Any]:
    """Prepare a half message. The client decides at once, or ``later`` at a check-back."""
    sent: dict[str, Any] = await driver.call(
        "send_in_transaction",
        group=GROUP,
        topic=topic,
        body=decision,
        properties={"decision": decision, "later": later, **more},
    )
    return sent


async def known_as_producer(broker: RemotingBroker, driver: Driver) -> None:
    """Wait until the broker knows the client, which sends its first heartbeat only after a message."""
    await prepare(driver, "warm-up", "commit")
    async with asyncio.timeout(WAIT_S):
        while not any(GROUP in client["producer_groups"] for client in await broker.control.clients()):
            pass


async def half_of(broker: RemotingBroker, topic: str) -> JsonObject | None:
    """Return the open half message for a topic."""
    halves = (await broker.control.transactions(topic=topic))["messages"]
    return halves[0] if halves else None


async def received(broker: RemotingBroker, topic: str) -> list[JsonObject]:
    """Receive the visible messages."""
    return await broker.control.receive(topic, group="GID_billing", max_messages=9)


async def committed(broker: RemotingBroker, topic: str) -> JsonObject:
    """Wait for the committed message, as clients commit oneway."""
    async with asyncio.timeout(WAIT_S):
        while not (messages := await received(broker, topic)):
            pass
    [message] = messages
    return message


async def decided(broker: RemotingBroker, topic: str) -> None:
    """Wait until no half message is open, as clients decide oneway."""
    async with asyncio.timeout(WAIT_S):
        while await half_of(broker, topic):
            pass


async def commits_and_rolls_back(broker: RemotingBroker, driver: Driver, topic: str) -> None:
    """Decide at once: the committed message is visible, the other never."""
    await prepare(driver, topic, "rollback", own="mine")
    sent = await prepare(driver, topic, "commit", own="mine")
    message = await committed(broker, topic)
    assert (message["body"], message["message_id"]) == ("commit", sent["message_id"])
    assert message["queue_id"] == sent["queue_id"]
    assert (message["sys_flag"], message["properties"]["own"]) == (8, "mine")
    await decided(broker, topic)
    assert await received(broker, topic) == []


async def commits_when_asked(broker: RemotingBroker, driver: Driver, topic: str) -> None:
    """The client is checked back after six seconds; its commit is visible before the clock move ends."""
    sent = await prepare(driver, topic, "unknown", "commit")
    half = await half_of(broker, topic)
    assert half
    await broker.control.move_to(half["next_check_ms"] - 1)
    assert await received(broker, topic) == []
    await broker.control.move_to(half["next_check_ms"])
    message = await committed(broker, topic)  # visible at once, unless the machine is very busy
    assert (message["message_id"], message["queue_id"]) == (sent["message_id"], sent["queue_id"])
    assert message["store_ms"] == half["store_ms"] + 6_000
    asked = await driver.next(GROUP)
    assert (asked.topic, asked.body, asked.message_id) == (topic, "unknown", sent["message_id"])
    assert (asked.queue_id, asked.properties["TRANSACTION_CHECK_TIMES"]) == (sent["queue_id"], "1")


async def rolls_back_when_asked(broker: RemotingBroker, driver: Driver, topic: str) -> None:
    """The client is checked back once, and the message is never visible."""
    await prepare(driver, topic, "unknown", "rollback")
    await broker.control.advance("6s")
    await driver.next(GROUP)
    await decided(broker, topic)
    await broker.control.advance("1h")
    assert (len(driver.received[GROUP]), await received(broker, topic)) == (0, [])


async def is_asked_until_given_up(broker: RemotingBroker, driver: Driver, topic: str) -> None:
    """The client never decides; after 15 checks, in one clock move, the message is abandoned."""
    sent = await prepare(driver, topic, "unknown", "unknown")
    await broker.control.advance("1h")
    times = [(await driver.next(GROUP)).properties["TRANSACTION_CHECK_TIMES"] for _ in range(15)]
    # The order is not fixed, because the client has several threads.
    assert sorted(times, key=int) == [str(number) for number in range(1, 16)]
    assert (len(driver.received[GROUP]), await half_of(broker, topic)) == (0, None)
    given_up = (await broker.control.browse(UNDECIDED, 0, max_messages=256))["messages"]
    assert sent["message_id"] in [message["message_id"] for message in given_up]
    assert await received(broker, topic) == []


async def commits_with_a_delay(
    broker: RemotingBroker, driver: Driver, topic: str, delay_s: int, **delay: str
) -> None:
    """The message waits for its commit, and then for its due time."""
    now_ms = (await broker.control.clock())["now_ms"]
    await prepare(driver, topic, "commit", **delay)
    [due_ms] = await broker.pending(topic)
    assert due_ms == now_ms + delay_s * 1_000
    assert await received(broker, topic) == []
    await broker.control.move_to(due_ms)
    [message] = await received(broker, topic)
    assert (message["body"], message["store_ms"]) == ("commit", due_ms)
