"""Injected faults in every protocol over real sockets; rules are set over HTTP and by command line."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from mocketmq.app import running_emulator
from mocketmq.errors import SettingError
from mocketmq.remoting.wire.command import Command
from mocketmq.remoting.wire.frame import FrameReader, encode
from mocketmq.settings import Settings, TopicDeclaration
from mocketmq.settings_sources import load_settings
from tests.doors.remoting.producing import UNIQUE, header, sent
from tests.support.aliyun import Aliyun
from tests.support.api import Api
from tests.support.brokers import FREE_PORTS, TOPIC, S, visible
from tests.support.command_line import Shell
from tests.support.patience import PATIENCE_S
from tests.support.remoting import ClosedError, RemotingClient, connected

BUSY = "[REJECTREQUEST]system busy, start flow control for a while [fault fault-1]"


class Doors:
    """One broker with clients of all its protocols."""

    def __init__(self, api: Api, aliyun: Aliyun, client: RemotingClient) -> None:
        self.api = api
        self.aliyun = aliyun
        self.client = client
        self.broker = api.emulator.broker

    async def add(self, do: str, **rule: Any) -> Any:
        """Add a fault rule over HTTP."""
        return await self.api.ok("POST", "/v1/faults", {"do": do, **rule})

    async def send(self, door: str) -> str:
        """Send a message by this protocol, and return the code of the answer."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                if door == "remoting":
                    answer = await self.client.ask(310, header(properties={"UNIQ_KEY": UNIQUE}), b"hello")
                    return str(answer.code)
                if door == "http":
                    answered = await self.api.call(
                        "POST", f"/v1/topics/{TOPIC}/messages", {"body": "hello", "message_id": UNIQUE}
                    )
                    return str(answered.status)
                published = await self.aliyun.publish()
                return published.error[1] if published.status != 201 else "201"
        except (ClosedError, aiohttp.ServerDisconnectedError):
            return "closed"

    async def stored(self) -> int:
        """Return the number of messages in the topic."""
        return len(await visible(self.broker, TOPIC))

    async def wait_stored(self) -> None:
        """Wait until the topic has a message."""
        waiting = {"delivered": 1, "timeout_ms": 30_000}
        assert (await self.api.ok("POST", f"/v1/topics/{TOPIC}/wait", waiting))["reached"]


@asynccontextmanager
async def running_doors(**changed: Any) -> AsyncIterator[Doors]:
    usual = {"data": ":memory:", "clock": "manual", "topics": (TopicDeclaration(name=TOPIC),)}
    settings = Settings(**{**FREE_PORTS, **usual, **changed})
    async with running_emulator(settings) as emulator, aiohttp.ClientSession() as session:
        assert emulator.remoting
        async with connected("127.0.0.1", emulator.remoting.broker_port) as client:
            yield Doors(Api(emulator, session), Aliyun(emulator, session), client)


@pytest.fixture
async def doors() -> AsyncIterator[Doors]:
    async with running_doors() as doors:
        yield doors


SECOND_IS_LATE = 1  # a seed: it draws 0, then an hour
OK = {"remoting": "0", "http": "201", "aliyun": "201"}
DOORS = pytest.mark.parametrize("door", OK)


@pytest.mark.parametrize(
    ("error", "remoting", "http", "aliyun", "is_stored"),
    [
        ("SYSTEM_BUSY", "2", "503", "QpsLimitExceeded", False),
        ("FLUSH_DISK_TIMEOUT", "10", "504", "InternalError", True),
        ("SLAVE_NOT_AVAILABLE", "11", "503", "InternalError", True),
        ("SERVICE_NOT_AVAILABLE", "14", "503", "InternalError", False),
        ("NO_PERMISSION", "16", "403", "AccessDenied", False),
        ("TOPIC_NOT_EXIST", "17", "404", "TopicNotExist", False),
        ("TimeExpired", "1", "408", "TimeExpired", False),
    ],
)
async def test_each_door_refuses_in_its_own_form(
    doors: Doors, error: str, remoting: str, http: str, aliyun: str, is_stored: bool
) -> None:
    await doors.add("refuse", error=error, operation="send", topic=TOPIC)
    assert await doors.send("remoting") == remoting
    assert await doors.send("http") == http
    assert await doors.send("aliyun") == aliyun
    assert await doors.stored() == 3 * is_stored
    (fault,) = (await doors.api.ok("GET", "/v1/faults"))["faults"]
    assert (fault["matched"], fault["fired"]) == (3, 3)
    assert [await doors.send(door) for door in OK] != list(OK.values())
    await doors.api.ok("DELETE", "/v1/faults/fault-1")
    assert [await doors.send(door) for door in OK] == list(OK.values())


async def test_refusal_has_upstreams_text_and_the_name_of_the_rule(doors: Doors) -> None:
    await doors.add("refuse", error="SYSTEM_BUSY")
    assert (await doors.client.call(310, header(), b"x")).remark == BUSY
    problem = await doors.api.refused(503, "POST", f"/v1/topics/{TOPIC}/messages", {"body": "x"})
    assert (problem["type"], problem["detail"]) == ("/problems/store-busy", BUSY)


async def test_flush_timeout_answers_with_the_place_of_the_message(doors: Doors) -> None:
    await doors.add("refuse", error="FLUSH_DISK_TIMEOUT")
    answer = await doors.client.call(310, header(), b"x")
    assert (answer.code, answer.ext["queueOffset"], answer.ext["msgId"][:8]) == (10, "0", "7F000001")


async def test_a_refused_send_is_not_delayed_by_a_flush_timeout(doors: Doors) -> None:
    await doors.add("refuse", error="FLUSH_DISK_TIMEOUT")
    answer = await doors.client.call(310, header(queue_id=99), b"x")  # no queue has this number
    assert (answer.code, await doors.stored()) == (29, 0)


@DOORS
@pytest.mark.parametrize("stage", ["before", "after"])
async def test_the_connection_is_closed_before_or_after_the_message_is_stored(
    doors: Doors, door: str, stage: str
) -> None:
    await doors.add("close", stage=stage, door=door, operation="send", next=1)
    # An HTTP client may retry by itself on a new connection, so the second request counts as well.
    await doors.send(door)
    (fault,) = (await doors.api.ok("GET", "/v1/faults"))["faults"]
    assert (fault["fired"], fault["state"]) == (1, "spent")
    assert await doors.stored() in ((0, 1) if stage == "before" else (1, 2))
    if door == "remoting":
        await doors.client.closed()
        assert await doors.stored() == (stage == "after")


@DOORS
async def test_a_response_is_dropped_although_the_message_is_stored(doors: Doors, door: str) -> None:
    await doors.add("never", door=door, operation="send")
    sending = asyncio.create_task(doors.send(door))
    await doors.wait_stored()
    assert not sending.done()
    await doors.api.ok("DELETE", "/v1/faults")
    if door == "remoting":
        assert await doors.client.ok(105, {"topic": TOPIC})  # the connection still works
        assert not sending.done()
        sending.cancel()
        await asyncio.wait([sending])
    else:
        with contextlib.suppress(aiohttp.ClientError):
            await sending


@DOORS
async def test_late_answer_waits_in_real_time_until_the_rule_ends(doors: Doors, door: str) -> None:
    await doors.add("late", by="1h", door=door, operation="send")
    sending = asyncio.create_task(doors.send(door))
    await doors.wait_stored()
    assert not sending.done()
    await doors.api.ok("DELETE", "/v1/faults/fault-1")
    assert await sending == OK[door]
    await doors.add("late", by="1ms", door=door)
    assert await doors.send(door) == OK[door]


async def test_concurrent_requests_are_as_late_as_sequential_ones(doors: Doors) -> None:
    await doors.add("late", by=["0", "1h"], seed=SECOND_IS_LATE, operation="send")
    sends = [asyncio.create_task(doors.send("http")) for _ in range(2)]
    done, late = await asyncio.wait(sends, timeout=PATIENCE_S, return_when=asyncio.FIRST_COMPLETED)
    assert (len(done), len(late)) == (1, 1)
    await doors.api.ok("DELETE", "/v1/faults")
    assert [await each for each in sends] == ["201", "201"]


async def test_answer_is_sent_twice(doors: Doors) -> None:
    await doors.add("twice", door="remoting", operation="route")
    frames = FrameReader()
    answers: list[Command] = []
    remoting = doors.api.emulator.remoting
    assert remoting
    reader, writer = await asyncio.open_connection("127.0.0.1", remoting.broker_port)
    writer.write(encode(Command(code=105, opaque=7, ext={"topic": TOPIC})))
    async with asyncio.timeout(PATIENCE_S):
        while len(answers) < 2:
            answers += frames.feed(await reader.read(1 << 16))
    writer.close()
    assert [(answer.opaque, answer.code) for answer in answers] == [(7, 0), (7, 0)]
    assert answers[0].body == answers[1].body


async def test_a_broker_is_read_only_or_its_disk_is_full(doors: Doors) -> None:
    await doors.send("remoting")
    await doors.add("read-only", name="ro")
    assert [await doors.send(door) for door in OK] == ["16", "403", "AccessDenied"]
    [message] = await doors.api.receive()
    assert message["body"] == "hello"
    await doors.api.ok("DELETE", "/v1/faults/ro")
    await doors.add("disk-full")
    assert [await doors.send(door) for door in OK] == ["14", "507", "InternalError"]


async def test_a_rule_for_one_client_spares_the_others(doors: Doors) -> None:
    beat = b'{"clientID":"c1","producerDataSet":[{"groupName":"makers"}],"consumerDataSet":[]}'
    await doors.client.ok(34, {}, beat)
    await doors.add("refuse", error="SYSTEM_ERROR", client="c1", operation="SEND_MESSAGE_V2")
    assert (await doors.client.call(310, header(), b"x")).code == 1
    assert await doors.send("http") == "201"
    remoting = doors.api.emulator.remoting
    assert remoting
    async with connected("127.0.0.1", remoting.broker_port) as another:
        await sent(another, b"x")


async def test_life_of_a_message_lists_its_faults(doors: Doors) -> None:
    await doors.add("refuse", error="SYSTEM_BUSY", next=1, name="busy")
    await doors.add("late", by="0", name="slow", operation="send")
    assert [await doors.send("remoting") for _ in range(2)] == ["2", "0"]
    now_us = doors.broker.clock.now_us()
    life = await doors.api.ok("GET", f"/v1/messages/{UNIQUE}")
    one = {"at_us": now_us, "door": "remoting", "operation": "send"}
    assert life["faults"] == [
        {**one, "fault": "busy", "do": "refuse"},
        {**one, "fault": "slow", "do": "late"},
    ]
    ended = await Shell(doors.api.emulator.url)("message", UNIQUE)
    assert "fault busy: refuse for send by remoting" in ended.stdout
    sent = await doors.api.send(body="without id")
    life = await doors.api.ok("GET", f"/v1/messages/{sent['message_id']}")
    assert [each["fault"] for each in life["faults"]] == ["slow"]


async def test_events_of_faulted_requests_name_topic_and_group(doors: Doors) -> None:
    await doors.add("refuse", error="SYSTEM_BUSY")
    pull = {"consumerGroup": "billing", "topic": TOPIC, "queueId": "0", "queueOffset": "0"}
    assert (await doors.client.ask(11, pull)).code == 2
    for operation, body in (("receive", {"topic": TOPIC}), ("ack", {"receipts": ["x"]})):
        assert (await doors.api.call("POST", f"/v1/groups/billing/{operation}", body)).status == 503
    events = (await doors.api.ok("GET", "/v1/events"))["events"]
    assert [(event["topic"], event["group"]) for event in events] == [
        (TOPIC, "billing"),
        (TOPIC, "billing"),
        (None, "billing"),  # only receipts name the topic
    ]


async def test_rules_stay_after_a_restart_with_their_counts_and_are_cleared_by_a_reset(
    tmp_path: Path,
) -> None:
    async with running_doors(data=str(tmp_path)) as doors:
        await doors.add("refuse", error="SYSTEM_BUSY", next=2, operation="send")
        assert await doors.send("http") == "503"
    async with running_doors(data=str(tmp_path)) as doors:
        (fault,) = (await doors.api.ok("GET", "/v1/faults"))["faults"]
        assert (fault["name"], fault["fired"], fault["state"]) == ("fault-1", 1, "active")
        assert [await doors.send("http") for _ in range(2)] == ["503", "201"]
        await doors.api.ok("POST", "/v1/reset")
        assert await doors.api.ok("GET", "/v1/faults") == {"faults": []}
    async with running_doors(data=str(tmp_path)) as doors:
        assert await doors.api.ok("GET", "/v1/faults") == {"faults": []}


@pytest.mark.parametrize(
    ("rule", "field", "allowed"),
    [
        ({"do": "explode"}, "do", "'refuse'"),
        ({"do": "close", "door": "mqtt"}, "door", "remoting, aliyun, grpc, http"),
        ({"do": "close", "operation": "snd"}, "operation", "send"),
        ({"do": "twice", "door": "http"}, "door", "remoting"),
        ({"do": "close", "next": 0}, "next", "1"),
        ({"do": "close", "colour": "red"}, "colour", "only do"),
        ({"do": "late", "by": []}, "by", "duration"),
    ],
)
async def test_impossible_rule_is_refused(
    doors: Doors, rule: dict[str, Any], field: str, allowed: str
) -> None:
    problem = await doors.api.refused(400, "POST", "/v1/faults", rule)
    assert problem["field"] == field
    assert allowed in problem["allowed"]


async def test_rule_names_are_unique(doors: Doors) -> None:
    await doors.add("close", name="mine", client="10.0.0.1")
    await doors.api.refused(400, "POST", "/v1/faults", {"do": "close", "name": "mine"})
    assert (await doors.api.ok("GET", "/v1/faults/mine"))["client"] == "10.0.0.1"
    await doors.api.refused(404, "GET", "/v1/faults/other")
    await doors.api.refused(404, "DELETE", "/v1/faults/other")


async def test_fault_rules_never_block_the_api_that_removes_them(doors: Doors) -> None:
    await doors.add("never")
    assert len((await doors.api.ok("GET", "/v1/faults"))["faults"]) == 1
    await doors.api.ok("POST", "/v1/clock/advance", {"by": "1s"})
    await doors.api.ok("POST", "/v1/reset")


async def test_command_line_manages_rules(doors: Doors) -> None:
    shell = Shell(doors.api.emulator.url)
    added = await shell.json("faults", "add", "late", "by=1ms", "by=2ms", "next=3", "operation=310", "seed=5")
    assert added["by"] == ["1ms", "2ms"]
    ended = await shell("faults", "ls")
    assert "late by=['1ms', '2ms']" in ended.stdout or "by=" in ended.stdout
    assert "ended fault-1 after 0 faults" in (await shell("faults", "rm", "fault-1")).stdout
    assert (await shell("faults", "ls")).stdout == "no faults\n"
    assert (await shell("faults", "rm")).code == 2
    assert (await shell("faults", "add", "close", "every")).code == 2


async def test_settings_file_declares_rules(tmp_path: Path) -> None:
    path = tmp_path / "mocketmq.toml"
    path.write_text('[[faults]]\ndo = "refuse"\nerror = "SYSTEM_BUSY"\noperation = "send"\nnext = 1\n')
    declared = load_settings({}, {}, path).faults
    for _ in range(2):
        async with running_doors(data=str(tmp_path / "data"), faults=declared) as doors:
            (fault,) = (await doors.api.ok("GET", "/v1/faults"))["faults"]
            assert (fault["name"], fault["fired"]) == ("settings-1", 0)
            assert [await doors.send("http") for _ in range(2)] == ["503", "201"]
    with pytest.raises(SettingError, match=r"faults\[0\].error"):
        async with running_doors(faults=({"do": "refuse", "error": "BUSI"},)):
            pass


async def test_rule_times_follow_the_clock_of_the_broker(doors: Doors) -> None:
    await doors.add("refuse", error="SYSTEM_BUSY", operation="send", lasts="10s")
    assert await doors.send("http") == "503"
    await doors.broker.mover.advance(10 * S)
    assert await doors.send("http") == "201"
    assert (await doors.api.ok("GET", "/v1/faults/fault-1"))["state"] == "over"
