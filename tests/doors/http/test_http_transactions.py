"""Preparing, listing and deciding half messages over HTTP, by Python client and by command line."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from mocketmq import BrokerError, Client
from mocketmq.cli.exit_codes import Exit
from mocketmq.message.message import Message
from tests.support.api import Api
from tests.support.brokers import TOPIC, S
from tests.support.command_line import Shell
from tests.support.process import forked_broker

MAKERS = "makers"


async def prepare(api: Api, body: str = "half", topic: str = TOPIC, **fields: Any) -> Any:
    given = {"body": body, "group": MAKERS, **fields}
    return await api.ok("POST", f"/v1/topics/{topic}/transactions", given)


async def test_a_half_message_is_prepared_listed_and_committed(api: Api) -> None:
    half = await prepare(api, tag="A", keys=["k"], properties={"own": "mine"}, queue_id=2, message_id="m1")
    now_ms = (await api.ok("GET", "/v1/clock"))["now_ms"]
    assert (half["message_id"], half["body"], half["tag"], half["keys"]) == ("m1", "half", "A", ["k"])
    assert (half["topic"], half["queue_id"]) == ("RMQ_SYS_TRANS_HALF_TOPIC", 0)
    assert (half["real_topic"], half["real_queue_id"]) == (TOPIC, 2)
    assert (half["producer_group"], half["checks"], half["next_check_ms"]) == (MAKERS, 0, now_ms + 6_000)
    assert half["properties"] == {
        **{"TAGS": "A", "KEYS": "k", "own": "mine", "UNIQ_KEY": "m1", "TRAN_MSG": "true"},
        **{"PGROUP": MAKERS, "REAL_TOPIC": TOPIC, "REAL_QID": "2"},
    }
    assert await api.ok("GET", "/v1/transactions") == {"messages": [half], "next_after": None}
    assert await api.receive() == []
    assert await api.ok("POST", "/v1/transactions/m1/commit") == half
    (message,) = await api.receive()
    assert (message["body"], message["queue_id"], message["sys_flag"]) == ("half", 2, 8)
    assert await api.ok("GET", "/v1/transactions") == {"messages": [], "next_after": None}


async def test_a_half_message_is_rolled_back_by_either_id(api: Api) -> None:
    one, two = await prepare(api), await prepare(api)
    for half, name in ((one, "message_id"), (two, "offset_message_id")):
        shown = await api.ok("POST", f"/v1/transactions/{half[name]}/rollback")
        assert shown["message_id"] == half["message_id"]
        for decision in ("commit", "rollback"):
            problem = await api.refused(404, "POST", f"/v1/transactions/{half[name]}/{decision}")
            assert "is waiting for a decision" in problem["detail"]
    assert await api.receive() == []


async def test_half_messages_of_every_door_are_listed_by_page_and_topic(api: Api) -> None:
    first = await prepare(api)
    broker = api.emulator.broker
    popped = await broker.popped_halves.prepare(Message("bills", b"popped"), 20 * S)
    third = await prepare(api, topic="bills", check_after_s=30, delay_ms=9_000)
    page = await api.ok("GET", "/v1/transactions?max=2")
    assert page["next_after"] == popped.stored.log_offset
    one, two = page["messages"]
    assert one == first
    assert (two["body"], two["topic"], two["real_topic"]) == ("popped", "%HALF%bills", "bills")
    assert (two["producer_group"], two["checks"]) == (None, 0)
    assert two["next_check_ms"] == two["store_ms"] + 20_000
    rest = await api.ok("GET", f"/v1/transactions?after={page['next_after']}")
    assert rest == {"messages": [third], "next_after": None}
    assert third["next_check_ms"] == third["store_ms"] + 30_000
    assert (first["due_ms"], third["due_ms"]) == (None, third["store_ms"] + 9_000)
    of_topic = (await api.ok("GET", "/v1/transactions?topic=bills&max=1"))["messages"]
    assert [half["message_id"] for half in of_topic] == [two["message_id"]]
    assert (await api.refused(404, "GET", "/v1/transactions?topic=none"))["title"] == "Topic not found"
    await api.ok("POST", f"/v1/transactions/{two['message_id']}/commit")
    settled = await broker.popped_halves.commit("bills", [popped.handle])
    assert (settled.done, len(settled.failed)) == ([], 1)
    assert [message["body"] for message in await api.receive("bills")] == ["popped"]


async def test_large_bodies_end_a_page_of_half_messages_early(api: Api) -> None:
    made = [(await prepare(api, "x" * (3 << 19)))["message_id"] for _ in range(7)]
    await prepare(api, "x" * (3 << 19), topic="bills")
    pages: list[list[str]] = []
    after: int | None = -1
    while after is not None:
        page = await api.ok("GET", f"/v1/transactions?topic={TOPIC}&after={after}&max=1000")
        pages.append([one["message_id"] for one in page["messages"]])
        after = page["next_after"]
    assert [one for page in pages for one in page] == made
    assert [len(page) for page in pages if page] == [4, 3]


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"group": None}, "group"),
        ({"group": "a b"}, "group"),
        ({"check_after_s": -1}, "check_after_s"),
        ({"check_after_s": 31_536_001}, "check_after_s"),
        ({"properties": {"CHECK_IMMUNITY_TIME_IN_SECONDS": "1"}}, None),
        ({"properties": {"TRAN_MSG": "true"}}, None),
        ({"properties": {"HALF_DUE_US": "1"}}, "properties"),
        ({"body_base64": "AA=="}, "body"),
        ({"delay_level": 1, "delay_ms": 1}, "delay_ms"),
    ],
)
async def test_a_faulty_half_message_is_refused(api: Api, wrong: dict[str, Any], field: str | None) -> None:
    given = {"body": "half", "group": MAKERS, **wrong}
    given = {name: value for name, value in given.items() if value is not None}
    problem = await api.refused(400, "POST", f"/v1/topics/{TOPIC}/transactions", given)
    assert problem["field"] == (field or f"properties.{next(iter(wrong['properties']))}")
    assert (await api.ok("GET", "/v1/transactions"))["messages"] == []


async def test_metrics_count_half_messages(api: Api) -> None:
    halves = [await prepare(api) for _ in range(4)]
    await api.ok("POST", f"/v1/transactions/{halves[0]['message_id']}/commit")
    await api.ok("POST", f"/v1/transactions/{halves[1]['message_id']}/rollback")
    lines = (await api.call("GET", "/metrics")).body.decode().splitlines()
    assert "mocketmq_open_half_messages 2.0" in lines
    await api.ok("POST", "/v1/clock/advance", {"by": "1h"})
    lines = (await api.call("GET", "/metrics")).body.decode().splitlines()
    for step, count in (("prepared", 4), ("committed", 1), ("rolled back", 1), ("abandoned", 2)):
        assert f'mocketmq_half_messages_total{{step="{step}"}} {count}.0' in lines
    assert {"mocketmq_open_half_messages 0.0", "mocketmq_half_message_checks_total 0.0"} <= {*lines}


# The Python client and the command line


@pytest.fixture
async def url() -> AsyncIterator[str]:
    async with forked_broker("--clock", "manual") as process:
        yield process.url


async def test_python_client_prepares_and_decides(url: str) -> None:
    async with Client(url) as broker:
        halves = [await broker.prepare(TOPIC, text, group=MAKERS, tag="A") for text in "ab"]
        page = await broker.transactions(topic=TOPIC, max_messages=1)
        assert [half["message_id"] for half in page["messages"]] == [halves[0]["message_id"]]
        page = await broker.transactions(after=page["next_after"])
        assert [half["message_id"] for half in page["messages"]] == [halves[1]["message_id"]]
        await broker.commit(halves[0]["message_id"])
        await broker.rollback(halves[1]["message_id"])
        assert [message["body"] for message in await broker.receive(TOPIC, group="g", max_messages=9)] == [
            "a"
        ]
        with pytest.raises(BrokerError, match="is waiting for a decision"):
            await broker.commit(halves[1]["message_id"])


async def test_command_line_prepares_and_decides(url: str) -> None:
    shell = Shell(url)
    async with Client(url) as broker:
        committed, other = [await broker.prepare(TOPIC, text, group=MAKERS, keys=["k"]) for text in "ab"]
    lines = (await shell("transactions", "ls", "--max", "1")).stdout.splitlines()
    columns = "prepared topic queue producers checks next check from now message tag keys"
    assert " ".join(lines[0].split()) == columns
    assert {TOPIC, MAKERS, "0", committed["message_id"], "k"} <= {*lines[2].split()}
    assert lines[-1] == f"there may be more: --after {committed['log_offset']}"
    page = await shell.json("transactions", "ls", "--topic", TOPIC, "--after", str(committed["log_offset"]))
    assert [half["message_id"] for half in page["messages"]] == [other["message_id"]]
    ended = await shell("transactions", "commit", committed["message_id"])
    assert ended.stdout == f"committed {committed['message_id']} to {TOPIC}\n"
    ended = await shell("transactions", "rollback", other["message_id"])
    assert ended.stdout == f"rolled back {other['message_id']}\n"
    assert (await shell("transactions", "ls")).stdout == "no half message is waiting for a decision\n"
    ended = await shell("transactions", "rollback", other["message_id"])
    assert (ended.code, "is waiting for a decision" in ended.stderr) == (Exit.NOTHING, True)
    life = (await shell("message", committed["message_id"])).stdout
    for text in (f"prepared for {TOPIC}", f"committed to {TOPIC}"):
        assert text in life
    assert "rolled back" in (await shell("message", other["message_id"])).stdout
