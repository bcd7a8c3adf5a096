"""Commands that look at messages without consuming them, and wait for them."""

import asyncio
import re
from collections.abc import AsyncIterator

import pytest

from mocketmq import Client, outgoing
from tests.support.command_line import Shell
from tests.support.patience import PATIENCE_S
from tests.support.process import forked_broker


@pytest.fixture
async def shell() -> AsyncIterator[Shell]:
    async with forked_broker("--clock", "manual") as process:
        yield Shell(process.url)


async def bodies(shell: Shell, *command: str) -> list[str]:
    return [message["body"] for message in (await shell.json(*command))["messages"]]


async def test_browsing_a_topic_changes_nothing(shell: Shell) -> None:
    for number in range(6):
        options = ("--tag", "AB"[number % 2], "--key", f"k{number}", "--queue", str(number % 4))
        await shell("send", "orders", f"body {number}", *options)
    assert await bodies(shell, "peek", "orders") == [f"body {number}" for number in range(6)]
    assert await bodies(shell, "peek", "orders", "--max", "2") == ["body 0", "body 1"]
    newest = await bodies(shell, "peek", "orders", "--offset", "-1", "--max", "3")
    assert newest == ["body 3", "body 4", "body 5"]
    assert await bodies(shell, "peek", "orders", "--filter", "B", "--max", "2") == ["body 1", "body 3"]
    [message] = (await shell.json("peek", "orders", "--max", "1"))["messages"]
    queue = str(message["queue_id"])
    assert "body 0" in await bodies(shell, "peek", "orders", "--queue", queue)
    assert "body 0" not in await bodies(shell, "peek", "orders", "--queue", queue, "--offset", "1")
    shown = (await shell("peek", "orders")).stdout
    assert re.search(r"^stored +message +topic +queue +offset +due +tag +keys +body$", shown, re.MULTILINE)
    assert re.search(rf"{message['message_id']} +orders +{queue} +0 +– +A +k0 +body 0$", shown, re.MULTILINE)
    assert len(await bodies(shell, "receive", "orders", "--group", "g", "--max", "9")) == 6
    assert len(await bodies(shell, "peek", "orders")) == 6


async def test_many_messages_are_read_page_by_page(shell: Shell) -> None:
    await shell("topics", "create", "many", "--queues", "1")
    async with Client(shell.url) as client:
        for start in range(0, 300, 100):
            await client.send_batch("many", [outgoing(str(start + number)) for number in range(100)])
    assert len(await bodies(shell, "peek", "many", "--max", "290")) == 290
    assert len(await bodies(shell, "peek", "many", "--offset", "-270", "--max", "290")) == 270


async def test_empty_result_has_its_own_exit_code(shell: Shell) -> None:
    await shell("topics", "create", "orders")
    ended = await shell("peek", "orders")
    assert (ended.code, ended.stdout) == (4, "no messages to show in orders\n")
    ended = await shell("find", "7")
    assert (ended.code, ended.stdout) == (4, "no message has the key 7\n")


async def test_messages_are_found_by_key(shell: Shell) -> None:
    for topic in ("orders", "bills"):
        await shell("send", topic, f"in {topic}", "--key", "7", "--key", "8")
    await shell("send", "orders", "later", "--key", "7", "--level", "1")
    assert await bodies(shell, "find", "8") == ["in orders", "in bills"]
    assert await bodies(shell, "find", "8", "--topic", "bills") == ["in bills"]
    assert await bodies(shell, "find", "7", "--max", "1") == ["in orders"]
    await shell("clock", "next")
    found = (await shell.json("find", "7"))["messages"]
    assert [each["topic"] for each in found if each["body"] == "later"] == ["SCHEDULE_TOPIC_XXXX", "orders"]


async def test_a_group_is_created_and_changed(shell: Shell) -> None:
    made = await shell("groups", "create", "billing", "--max-retries", "3")
    assert made.stdout == "group billing retries a message 3 times\n"
    changed = await shell.json("groups", "create", "billing", "--retry-queues", "2")
    assert (changed["max_retries"], changed["retry_queues"]) == (3, 2)
    assert [group["name"] for group in (await shell.json("groups"))["groups"]] == ["billing"]


async def test_groups_with_dead_letters_are_named_with_the_command_that_shows_these(shell: Shell) -> None:
    for body in "ab":
        await shell("send", "orders", body)
    async with Client(shell.url) as broker:
        await broker.receive("orders", group="healthy")
        await broker.give_back("billing", await broker.receive("orders", group="billing", max_messages=2), -1)
    *_, note = (await shell("groups")).stdout.splitlines()
    told, _, command = note.partition(": mocketmq ")
    assert told == "billing has 2 dead letters"
    letters = (await shell.json(*command.split()))["messages"]
    assert sorted(letter["body"] for letter in letters) == ["a", "b"]
    message_id = letters[0]["message_id"]
    life = (await shell("message", message_id)).stdout
    assert life.startswith(f"message {message_id} is dead at billing\n")


async def test_group_reset_moves_its_offsets(shell: Shell) -> None:
    for body in "abc":
        await shell("send", "orders", body, "--queue", "0")
    for _ in range(2):
        assert await bodies(shell, "receive", "orders", "--group", "billing", "--max", "9") == ["a", "b", "c"]
        reset = await shell("groups", "reset", "billing", "orders")
        assert reset.stdout == "group billing was reset in orders, with 3 messages to consume\n"
    here = ("groups", "reset", "billing", "orders", "--queue", "0")
    assert (await shell.json(*here, "--offset", "2"))["lag"] == 1
    outside = await shell(*here, "--offset", "4")
    assert (outside.code, outside.stderr) == (1, "Error: --offset is 4; allowed: 0 to 3\n")
    assert (await shell.json(*here, "--to", "end"))["lag"] == 0
    assert (await shell.json(*here, "--at", "2000-01-01T00:00:00Z"))["lag"] == 3


async def test_wait_ends_when_messages_arrive(shell: Shell) -> None:
    await shell("send", "orders", "1")
    assert await shell("wait", "orders") == (0, "topic orders has received 1 of 1 messages\n", "")
    waiting = asyncio.create_task(shell("wait", "orders", "--count", "2", "--wait", "30s"))
    async with Client(shell.url) as client, asyncio.timeout(PATIENCE_S):
        await client.send("orders", "2")
        assert (await waiting).code == 0
    ended = await shell("wait", "orders", "--count", "3", "--wait", "0")
    said, reason, *_ = ended.stdout.splitlines()
    assert (ended.code, said) == (4, "topic orders has received 2 of 3 messages")
    more = await shell("wait", "orders", "--count", "1")
    assert more == (0, "topic orders has received 2 messages (wanted 1)\n", "")
    more = await shell("wait", "orders", "--sent")
    assert more == (0, "2 messages of topic orders are sent (wanted 1)\n", "")
    assert reason == "orders: 2 delivered, wanted at least 3"
    ended = await shell("wait", "orders", "--sent", "--tag", "none", "--json-path", "$.a=1", "--wait", "0")
    assert (ended.code, ended.stdout.splitlines()[:3]) == (
        4,
        [
            "0 of 1 messages of topic orders are sent",
            "orders: 0 sent, wanted at least 1",
            "of messages with tag='none', json_path={'$.a': 1}",
        ],
    )
    for stage in (["--sent"], ["--acknowledged-by", "nobody"], ["--dead"]):
        ended = await shell("wait", "orders", *stage, "--wait", "0")
        assert ended.code == (0 if stage == ["--sent"] else 4)
    assert (await shell("wait", "orders", "--sent", "--dead")).code == 2
    assert (await shell("wait", "orders", "--json-path", "$.a")).code == 2
    assert (await shell("send", "orders", "3", "--delay", "1h")).code == 0
    waiting = asyncio.create_task(shell("wait", "orders", "--count", "3", "--wait", "30s"))
    async with Client(shell.url) as client, asyncio.timeout(PATIENCE_S):
        await client.move_to_next()
        assert (await waiting).code == 0


async def test_events_and_leaks_are_listed(shell: Shell) -> None:
    assert (await shell("events")).stdout == "nothing has happened since the last reset\n"
    assert await shell("leaks") == (0, "no leaks\n", "")
    await shell("send", "orders", "order 7", "--key", "7")
    await shell("faults", "add", "refuse", "error=SYSTEM_BUSY", "operation=send", "name=busy")
    assert (await shell("send", "orders", "order 8")).code == 3
    await shell("receive", "orders", "--group", "billing", "--no-ack")
    shown = (await shell("events")).stdout
    assert re.search(r"^time +event$", shown, re.MULTILINE)
    assert re.search(r"^20.*Z +sent to orders by http: keys 7 'order 7'$", shown, re.MULTILINE)
    assert re.search(r"^20.*Z +fault busy: refuse for send by http$", shown, re.MULTILINE)
    assert [one["kind"] for one in (await shell.json("events", "--max", "1"))["events"]] == ["fault"]
    leaked = await shell("leaks", "--group", "billing", "--wait", "1ms")
    assert (leaked.code, leaked.stderr) == (1, "")
    in_flight = r"orders keys 7 'order 7': in flight at billing, until [0-9: -]+, in [0-9.ms]+$"
    assert re.match(in_flight, leaked.stdout, re.MULTILINE)
    assert (await shell("leaks", "--group", "nobody")).code == 4


async def test_the_history_of_a_message_names_its_trace(shell: Shell) -> None:
    trace_id = "4bf92f3577b34da6a3ce929d0e0e4736"
    parent = f"traceparent=00-{trace_id}-00f067aa0ba902b7-01"
    sent = await shell.json("send", "orders", "traced", "--level", "3", "--property", parent)
    shown = (await shell("message", sent["message_id"])).stdout
    assert f"message {sent['message_id']} is pending, trace {trace_id}\n" in shown
    assert (await shell.json("message", sent["message_id"]))["records"][0]["trace_id"] == trace_id
    other = await shell.json("send", "orders", "untraced")
    assert "trace" not in (await shell("message", other["message_id"])).stdout
    assert (await shell.json("message", other["message_id"]))["records"][0]["trace_id"] is None
