"""SQL92 filters over remoting: in pulls, in heartbeat subscriptions, and in checks by 46."""

import asyncio
import json
import sys
import threading
from typing import Any

import pytest

from mocketmq.broker.filters import filter as filters
from mocketmq.broker.filters.filter import SqlFilter
from mocketmq.message.message import Message
from mocketmq.remoting.wire.command import Command
from tests.doors.remoting.consuming import (
    CHECK_CONFIG,
    HEART_BEAT,
    RETRY,
    SUBSCRIPTION,
    SUSPEND,
    beat,
    bodies,
    consumer,
    pull,
    pull_of,
    subscription,
)
from tests.support.brokers import GROUP, TOPIC
from tests.support.remoting import Remoting, running_remoting
from tests.support.waiting import Waiting

SQL: Any = {"expressionType": "SQL92"}
WRONG = "line 1, column 3 of the filter: LIKE is not expected here"
VERSION = 1_700_000_000_000


async def fill(remoting: Remoting, *prices: int | None, topic: str = TOPIC) -> None:
    """Send one message per price to queue 0; each body is the price."""
    properties: list[dict[str, str]] = [{} if price is None else {"price": str(price)} for price in prices]
    messages = [Message(topic, str(p).encode(), q, 0) for p, q in zip(prices, properties, strict=True)]
    for first in range(0, len(messages), 1_000):
        await remoting.broker.sender.send_batch(messages[first : first + 1_000])


async def subscribe(remoting: Remoting, expression: str, version: int = VERSION, **more: Any) -> None:
    """Change the group's subscription."""
    wanted = subscription(expression=expression, version=version, **{**SQL, **more})
    await remoting.client.ok(HEART_BEAT, body=beat(consumer(wanted)))


async def pull_sql(remoting: Remoting, expression: str | None, offset: int = 0, **more: Any) -> Command:
    """Pull with an expression, and return the answer."""
    return await pull(remoting.client, offset, subscription=expression, **SQL, **more)


async def test_pull_carries_an_expression() -> None:
    async with running_remoting() as remoting:
        await fill(remoting, 1, 5, None, 9, 30)
        answer = await pull_sql(remoting, "price BETWEEN 5 AND 20 OR price IS NULL")
        assert (answer.code, bodies(answer)) == (0, ["5", "None", "9"])
        assert answer.ext["nextBeginOffset"] == "5"
        none = await pull_sql(remoting, "price > 99")
        assert (none.code, none.remark, none.ext["nextBeginOffset"]) == (20, "NO_MATCHED_MESSAGE", "5")


async def test_tags_and_keys_are_properties() -> None:
    async with running_remoting() as remoting:
        for tag in ("A", "B"):
            await remoting.broker.sender.send(
                Message(TOPIC, tag.encode(), {"TAGS": tag, "KEYS": f"k{tag}"}, 0)
            )
        assert bodies(await pull_sql(remoting, "TAGS = 'A' OR KEYS IN ('kC')")) == ["A"]


async def test_pull_without_an_expression_uses_the_heartbeat() -> None:
    async with running_remoting() as remoting:
        await fill(remoting, 1, 5, 9)
        await subscribe(remoting, "price > 4")
        assert bodies(await pull(remoting.client, flags=0, subVersion=VERSION, **SQL)) == ["5", "9"]
        await subscribe(remoting, "price < 9", VERSION + 1)
        assert bodies(await pull(remoting.client, flags=0, subVersion=VERSION, **SQL)) == ["1", "5"]
        await subscribe(remoting, "*", VERSION + 2, expressionType="TAG")
        assert bodies(await pull(remoting.client, flags=0, subVersion=VERSION)) == ["1", "5", "9"]


async def test_pulls_are_refused_for_a_retry_when_clients_do_not_filter() -> None:
    """If their tags were used, they would get everything."""
    async with running_remoting() as remoting:
        await fill(remoting, 1)
        waits = {"suspendTimeoutMillis": 20_000}
        before = await pull(remoting.client, flags=SUSPEND, subVersion=VERSION, **SQL, **waits)
        assert (before.code, before.remark) == (24, f"the consumer's group info not exist, group: {GROUP}")
        await subscribe(remoting, "price > 4")
        newer = await pull(remoting.client, flags=SUSPEND, subVersion=VERSION + 1, **SQL, **waits)
        assert (newer.code, newer.remark) == (25, "the consumer's subscription not latest")
        by_tag = await pull(remoting.client, flags=SUSPEND, subVersion=VERSION + 1, **waits)
        assert by_tag.code == 25
        await subscribe(remoting, "*", expressionType="TAG", version=VERSION + 1)
        newest = await pull(remoting.client, flags=SUSPEND, subVersion=VERSION + 2, **SQL, **waits)
        assert newest.code == 25


async def test_retries_are_not_filtered() -> None:
    async with running_remoting() as remoting:
        await subscribe(remoting, "price > 4")
        await fill(remoting, 1, topic=RETRY)
        assert bodies(await pull(remoting.client, flags=0, topic=RETRY, subVersion=9)) == ["1"]


# Invalid expressions


@pytest.mark.parametrize("expression", ["a LIKE 'x%'", "", None])
async def test_a_pull_with_a_wrong_expression_is_refused(expression: str | None) -> None:
    async with running_remoting() as remoting:
        await fill(remoting, 1)
        answer = await pull_sql(remoting, expression)
        sentence = WRONG if expression else "line 1, column 1 of the filter: the expression ends too early"
        assert answer.code == 23
        assert str(answer.remark).startswith(f"parse the consumer's subscription failed: {sentence}")
        assert bodies(await pull_sql(remoting, "price = 1")) == ["1"]


async def test_wrong_expression_in_a_heartbeat_refuses_only_its_pulls() -> None:
    async with running_remoting() as remoting:
        await fill(remoting, 1)
        await subscribe(remoting, "a LIKE 'x%'")
        answer = await pull(remoting.client, flags=0, subVersion=VERSION, **SQL)
        assert answer.code == 27
        assert str(answer.remark).startswith(
            f"The broker's consumer filter data is not exist!Your expression may be wrong! {WRONG}"
        )
        [member] = remoting.broker.registry.clients
        [wanted] = member.consumers[GROUP].subscriptions
        assert (wanted.expression, wanted.kind) == ("a LIKE 'x%'", "SQL92")
        await subscribe(remoting, "price = 1", VERSION + 1)
        assert bodies(await pull(remoting.client, flags=0, subVersion=VERSION + 1, **SQL)) == ["1"]


@pytest.mark.parametrize(
    ("expression", "code", "remark"),
    [
        ("price > 4", 0, "None"),
        ("a LIKE 'x%'", 23, f"Invalid MessageSelector. {WRONG}"),
        ("", 23, "Invalid MessageSelector. line 1, column 1 of the filter: the expression ends too early"),
        ("x" * 16_385, 23, "Invalid MessageSelector. the filter is longer than 16,384 characters"),
    ],
)
async def test_clients_can_check_an_expression(expression: str, code: int, remark: str) -> None:
    async with running_remoting() as remoting:
        wanted = subscription(expression=expression, **SQL)
        body = {"clientId": "one", "group": GROUP, "subscriptionData": wanted, "namespace": ""}
        answer = await remoting.client.call(CHECK_CONFIG, body=json.dumps(body).encode())
        assert (answer.code, str(answer.remark)[: len(remark)]) == (code, remark)


# Long polls, and long queues


@pytest.mark.parametrize("flags", [SUSPEND, SUSPEND | SUBSCRIPTION])
async def test_a_pull_waits_for_a_message_that_matches_its_filter(flags: int) -> None:
    async with running_remoting() as remoting:
        waiting = Waiting(remoting.broker.polls)
        await fill(remoting, 1)
        await subscribe(remoting, "price > 4")
        wanted = {"subscription": "price > 4" if flags & SUBSCRIPTION else None, "subVersion": VERSION}
        answer = remoting.client.ask(11, pull_of(1, flags, suspendTimeoutMillis=60_000, **wanted, **SQL))
        await waiting.begun()
        await fill(remoting, 2, 3)
        for _ in range(20):
            await remoting.client.call(30, {"topic": TOPIC, "queueId": "0"})
        assert not answer.done()
        await fill(remoting, 5)
        found = await answer
        assert (bodies(found), found.ext["nextBeginOffset"]) == (["5"], "4")


async def test_checking_a_clients_filter_does_not_delay_other_clients(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    threads: list[str] = []
    monkeypatch.delitem(sys.modules, "mocketmq.broker.filters.sql_grammar", raising=False)
    monkeypatch.setattr(
        filters, "import_module", lambda _name: threads.append(threading.current_thread().name)
    )
    async with running_remoting() as remoting:
        wanted = {"topic": TOPIC, "subString": "price > 4", "expressionType": "SQL92"}
        body = json.dumps({"clientId": "c", "group": GROUP, "subscriptionData": wanted}).encode()
        await remoting.client.ok(CHECK_CONFIG, body=body)
    [name] = threads
    assert name != threading.main_thread().name


@pytest.mark.interpreted
async def test_filtering_a_long_queue_yields_to_other_requests(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    accepts, in_turn, most, total = SqlFilter.accepts, 0, 0, 0

    def counted(chosen: SqlFilter, properties: str) -> bool:
        nonlocal in_turn, most, total
        in_turn, total = in_turn + 1, total + 1
        most = max(most, in_turn)
        return accepts(chosen, properties)

    async def turns() -> None:
        nonlocal in_turn
        while True:
            await asyncio.sleep(0)
            in_turn = 0

    monkeypatch.setattr(SqlFilter, "accepts", counted)
    async with running_remoting() as remoting:
        await fill(remoting, *[1] * 11_000, 7, *[1] * 300, 8)
        watching = asyncio.create_task(turns())
        answer = await pull_sql(remoting, "price > 4")
        assert (answer.code, answer.ext["nextBeginOffset"]) == (20, "10000")
        answer = await pull_sql(remoting, "price > 4", 10_000)
        assert (bodies(answer), answer.ext["nextBeginOffset"]) == (["7"], "11032")
        answer = await pull_sql(remoting, "price > 4", 11_032)
        assert (bodies(answer), answer.ext["nextBeginOffset"]) == (["8"], "11302")
        watching.cancel()
        assert total > 11_000
        assert most < 500
