"""``mocketmq mcp`` as an agent uses it: the SDK's own client, a process of the server, and a real broker."""

import json
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.types import TextContent

from mocketmq import Client
from mocketmq.mcp.bounds import MAX_ANSWER
from tests.support.process import clean_environment, forked_broker

TOKEN = "secret"  # noqa: S105 - of a broker for this test alone


class Agent:
    """Calls the tools."""

    def __init__(self, session: ClientSession) -> None:
        self._session = session

    async def __call__(self, tool: str, **arguments: object) -> Any:
        """Return the answer, as JSON."""
        return json.loads(await self.text(tool, arguments))

    async def text(self, tool: str, arguments: dict[str, Any], *, is_error: bool = False) -> str:
        result = await self._session.call_tool(tool, arguments)
        [content] = result.content
        assert isinstance(content, TextContent)
        assert result.is_error is is_error, content.text
        return content.text

    async def error(self, tool: str, **arguments: object) -> str:
        return await self.text(tool, arguments, is_error=True)

    async def tools(self) -> dict[str, Any]:
        return {tool.name: tool for tool in (await self._session.list_tools()).tools}


@asynccontextmanager
async def agent_of(url: str, **environment: str) -> AsyncIterator[Agent]:
    """Start the server, as an editor does, with its address as an argument."""
    command = StdioServerParameters(
        command=sys.executable,
        args=["-m", "mocketmq", "mcp", "--url", url],
        env={**clean_environment(), **environment},
    )
    async with stdio_client(command) as streams, ClientSession(*streams) as session:
        await session.initialize()
        yield Agent(session)


async def test_an_agent_follows_a_delayed_message_from_its_send_to_its_acknowledgement() -> None:
    async with forked_broker("--clock", "manual") as broker, agent_of(broker.url) as agent:
        sent = await agent(
            "send_message", topic="orders", body='{"id": 7}', delay="30m", keys=["7"], tag="late"
        )
        [waiting] = (await agent("list_delayed"))["messages"]
        assert waiting["message_id"] == sent["message_id"]
        assert waiting["due_ms"] - waiting["store_ms"] == 1_800_000
        early = await agent("wait_for_messages", topic="orders", wait="0")
        assert (early["reached"], early["delivered"]) == (False, 0)
        assert "orders" in early["explanation"]

        moved = await agent("advance_clock", by="29m")
        assert (moved["fired"], moved["pending"]) == (0, 1)
        assert (await agent("move_clock_to_next_due"))["fired"] == 1
        assert (await agent("list_delayed"))["messages"] == []
        found = await agent("wait_for_messages", topic="orders", json_path={"$.id": 7}, key="7")
        assert [one["message_id"] for one in found["messages"]] == [sent["message_id"]]

        async with Client(broker.url) as consumer:
            taken = await consumer.receive("orders", group="billing")
            [leak] = (await agent("list_leaks"))["leaks"]
            assert leak["message"]["message_id"] == sent["message_id"]
            await consumer.acknowledge("billing", taken)
        assert (await agent("list_leaks", group="billing"))["leaks"] == []
        done = await agent("wait_for_messages", topic="orders", stage="acknowledged", group="billing")
        assert done["reached"]
        [group] = (await agent("list_groups"))["groups"]
        assert (group["name"], group["lag"]) == ("billing", 0)

        shown = await agent("show_message", message_id=sent["message_id"])
        assert (shown["topic"], shown["tag"], shown["body"]) == ("orders", "late", '{"id": 7}')
        assert [line.partition("Z ")[2].split()[0] for line in shown["life"]][-1] == "acknowledged"
        story, events = (await agent("read_story"))["story"], (await agent("read_events"))["events"]
        assert [line.partition("Z ")[2] for line in story] == [event["text"] for event in events]
        assert "acknowledged" in story[-1]


async def test_messages_have_the_delay_that_the_agent_gave() -> None:
    async with forked_broker("--clock", "manual") as broker, agent_of(broker.url) as agent:
        for delay, after_ms in (({"delay_level": 3}, 10_000), ({"delay": "1h"}, 3_600_000)):
            sent = await agent("send_message", topic="orders", body="hi", **delay)
            assert sent["due_ms"] == sent["store_ms"] + after_ms
        assert (await agent("send_message", topic="orders", body="hi"))["due_ms"] is None


async def test_the_clock_goes_to_an_instant_for_which_a_message_waits() -> None:
    async with forked_broker() as broker, agent_of(broker.url) as agent:
        now_ms = (await agent("show_broker"))["clock"]["now_ms"]
        sent = await agent("send_message", topic="orders", body="hi", deliver_at=str(now_ms + 3_600_000))
        assert sent["due_ms"] == now_ms + 3_600_000
        assert (await agent("move_clock_to", instant=str(now_ms + 3_600_000)))["fired"] == 1


async def test_a_wait_moves_the_clock_up_to_what_the_agent_allows() -> None:
    async with forked_broker("--clock", "manual") as broker, agent_of(broker.url) as agent:
        await agent("send_message", topic="orders", body="hi", delay="2h")
        waited = await agent("wait_for_messages", topic="orders", advance="1d")
        assert (waited["reached"], waited["moved_ms"]) == (True, 7_200_000)


async def test_an_agent_injects_and_removes_a_fault() -> None:
    async with forked_broker() as broker, agent_of(broker.url) as agent:
        rule = await agent(
            "inject_fault", kind="refuse", error="SYSTEM_BUSY", operation="send", topic="orders"
        )
        refused = await agent.error("send_message", topic="orders", body="hi")
        assert rule["name"] in refused
        [listed] = (await agent("list_faults"))["faults"]
        assert (listed["name"], listed["fired"]) == (rule["name"], 1)
        assert (await agent("remove_fault", name=rule["name"]))["fired"] == 1
        await agent("send_message", topic="orders", body="hi")
        found = await agent("find_messages", topic="orders", body="hi")
        assert [one["state"] for one in found["messages"]] == ["delivered"]


async def test_a_reset_deletes_messages_faults_and_the_story() -> None:
    async with forked_broker("--clock", "manual") as broker, agent_of(broker.url) as agent:
        before = await agent("show_broker")
        began = before["clock"]["now_ms"]
        await agent("send_message", topic="orders", body="hi", delay="1h")
        await agent("inject_fault", kind="hold", topic="orders")
        await agent("advance_clock", by="1m")
        await agent("reset", topic="orders")
        assert (await agent("list_delayed"))["messages"] == []
        assert len((await agent("list_faults"))["faults"]) == 1
        await agent("reset", restart_clock=True, forget=True)
        after = await agent("show_broker")
        assert (after["clock"]["now_ms"], after["topics"]) == (began, [])
        assert (await agent("list_faults"))["faults"] == (await agent("read_story"))["story"] == []


REFUSED: Sequence[tuple[str, dict[str, Any], str]] = [
    ("show_message", {"message_id": "nosuch"}, "no message has the id 'nosuch'"),
    ("advance_clock", {"by": "soon"}, "by is 'soon'; allowed: a duration such as"),
    ("advance_clock", {"by": "-1s"}, "by is '-1s'"),
    ("move_clock_to", {"instant": "tomorrow"}, "instant is 'tomorrow'; allowed: epoch milliseconds"),
    ("send_message", {"topic": "or ders", "body": "hi"}, "'or ders'"),
    ("send_message", {"topic": "orders", "body": "hi", "delay": "1s", "delay_level": 3}, "has one delay"),
    ("wait_for_messages", {"topic": "orders", "stage": "acknowledged"}, "group is"),
    ("wait_for_messages", {"topic": "orders", "group": "billing"}, "group is 'billing'; allowed: no value"),
    ("wait_for_messages", {"topic": "orders", "stage": "sent", "advance": "1d"}, "advance is '1d'"),
    ("inject_fault", {"kind": "late"}, "by is missing; allowed: a duration"),
    ("remove_fault", {"name": "fault-9"}, "fault-9"),
    ("list_leaks", {"group": "nobody"}, "nobody"),
]


async def test_errors_are_the_brokers_own() -> None:
    async with forked_broker() as broker, agent_of(broker.url) as agent:
        for tool, arguments, words in REFUSED:
            assert words in await agent.error(tool, **arguments), (tool, arguments)


FORBIDDEN: Sequence[tuple[str, dict[str, Any], str]] = [
    ("send_message", {"topic": "orders", "body": "hi", "delay_ms": 5}, "delay_ms"),
    ("send_message", {"topic": "orders"}, "body"),
    ("wait_for_messages", {"topic": "orders", "stage": "gone"}, "stage"),
    ("read_story", {"max_events": 1_000}, "max_events"),
]


async def test_arguments_that_the_schema_forbids_are_refused() -> None:
    async with forked_broker() as broker, agent_of(broker.url) as agent:
        for tool, arguments, field in FORBIDDEN:
            assert field in await agent.error(tool, **arguments), (tool, arguments)
        assert (await agent("read_story"))["story"] == []


async def test_every_argument_has_a_type_and_a_description() -> None:
    async with agent_of("http://127.0.0.1:9") as agent:
        tools = await agent.tools()
        for name, tool in tools.items():
            assert tool.description.endswith((".", "read_story")), name
            assert tool.input_schema["additionalProperties"] is False, name
            for argument, schema in tool.input_schema["properties"].items():
                assert schema["description"], (name, argument)
                assert "type" in schema or "anyOf" in schema, (name, argument)
        assert {name for name, tool in tools.items() if tool.annotations.destructive_hint} == {
            "remove_fault",
            "reset",
        }


async def test_answers_are_bounded() -> None:
    async with forked_broker() as broker, agent_of(broker.url) as agent:
        async with Client(broker.url) as client:
            message = {"body": "x" * 10_000, "properties": {f"p{n}": "y" * 100 for n in range(50)}}
            await client.send_batch("orders", [message] * 60)
        for tool, arguments in (
            ("find_messages", {"topic": "orders", "max_messages": 200}),
            ("wait_for_messages", {"topic": "orders", "count": 60}),
            ("read_events", {"max_events": 200}),
        ):
            text = await agent.text(tool, arguments)
            assert len(text) <= MAX_ANSWER
            json.loads(text)
            assert "left out; ask for fewer" in text
        assert len((await agent("read_story", max_events=200))["story"]) == 60


async def test_a_broker_may_start_later_and_may_need_a_token() -> None:
    async with agent_of("http://127.0.0.1:9") as agent:
        assert "no broker answers at http://127.0.0.1:9" in await agent.error("list_groups")
    async with forked_broker("--token", TOKEN) as broker:
        async with agent_of(broker.url) as agent:
            assert "token" in await agent.error("list_groups")
        async with agent_of(broker.url, MOCKETMQ_TOKEN=TOKEN) as agent:
            assert (await agent("list_groups"))["groups"] == []


def test_the_server_ends_with_its_input() -> None:
    done = run_mcp("--url", "http://127.0.0.1:9")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_wrong_address_is_refused_before_the_agent_is_served() -> None:
    done = run_mcp("--url", "nowhere")
    assert done.returncode == 2
    assert done.stderr.startswith("Error: --url is 'nowhere'; allowed: an address such as http://")


def test_without_the_extra_the_command_says_what_to_install() -> None:
    program = "import sys; sys.modules['mcp'] = None; from mocketmq.cli import main; main(['mcp'])"
    done = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True)
    assert done.returncode == 2
    assert "install mocketmq with its extra 'mcp'" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def run_mcp(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "mocketmq", "mcp", *arguments],
        check=False,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        env=clean_environment(),
    )
