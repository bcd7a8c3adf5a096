"""``mocketmq record`` and ``mocketmq replay`` as processes, between brokers in processes."""

import asyncio
import hmac
import json
import signal
import zlib
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from mocketmq import Client
from mocketmq.calling.headers import send_ext
from mocketmq.client.messaging import outgoing
from mocketmq.message.body import COMPRESSED_FLAG
from mocketmq.message.properties import UNIQ_KEY
from mocketmq.remoting.wire.codes import RequestCode
from tests.support.patience import HANGING_S
from tests.support.process import BrokerProcess, forked_broker
from tests.support.recordings import ended, lines, recorded, replayed, result, started
from tests.support.remoting import connected

GAPS_MS = (0, 1, 700, 0, 60_000, 3_600_000, 5)
"""Times between messages; all of them together are more than an hour."""
ZLIB_KEPT = "zlib bodies that stay compressed, as they are damaged or larger than 4 MiB"


def server_of(broker: BrokerProcess) -> str:
    """Address of the name server."""
    host, port = broker.name_server
    return f"{host}:{port}"


async def send_all(client: Client) -> list[int]:
    """Send a message after each gap, to two queues, and return when each was stored."""
    await client.create_topic("orders", queues=2)
    stored = []
    for number, gap_ms in enumerate(GAPS_MS):
        await client.advance(f"{gap_ms}ms")
        sent = await client.send(
            "orders",
            json.dumps({"number": number, "phone": "13800138000"}),
            keys=[f"order-{number}"],
            tag="A",
            properties={"region": "eu"},
            queue_id=number % 2,
        )
        stored.append(sent["store_ms"])
    return stored


async def read(client: Client, topic: str = "orders", queues: int = 2) -> list[dict[str, Any]]:
    """Return the messages of a topic, by queue."""
    pages = [await client.browse(topic, queue_id) for queue_id in range(queues)]
    return [message for page in pages for message in page["messages"]]


async def test_recorded_messages_are_replayed_with_their_spacing(tmp_path: Path) -> None:
    path = tmp_path / "orders.jsonl"
    async with forked_broker("--clock", "manual") as broker, Client(broker.url) as client:
        stored = await send_all(client)
        assert (await recorded(server_of(broker), path))["messages"] == len(GAPS_MS)
        before = await read(client)
    async with forked_broker("--clock", "manual") as broker, Client(broker.url) as client:
        done = await replayed(broker.url, path)
        after = await read(client)
    assert done["sent"] == len(GAPS_MS)
    assert done["now_ms"] - done["began_ms"] == sum(GAPS_MS)
    kept = ("message_id", "body", "tag", "keys", "properties", "queue_id", "queue_offset")
    assert [[each[name] for name in kept] for each in after] == [
        [each[name] for name in kept] for each in before
    ]
    ahead_ms = done["began_ms"] - stored[0]
    assert [each["store_ms"] for each in after] == [each["store_ms"] + ahead_ms for each in before]
    assert [each["born_ms"] for each in after] == [each["born_ms"] + ahead_ms for each in before]


async def test_a_recording_is_continued_where_it_ended(tmp_path: Path) -> None:
    path, whole = tmp_path / "orders.jsonl", tmp_path / "whole.jsonl"
    async with forked_broker("--clock", "manual") as broker, Client(broker.url) as client:
        await send_all(client)
        server = server_of(broker)
        await recorded(server, whole)
        await recorded(server, path, "--limit", "3")
        with path.open("a") as file:
            file.write('{"sent_at": "torn')  # by a kill
        again = await ended("record", "--name-server", server, "--topic", "orders", "--to", str(path))
        assert again.code == 2
        assert "exists: give another name, or continue it with --resume" in again.stderr
        other = await ended(
            *("record", "--name-server", server, "--topic", "orders", "--to", str(path)),
            *("--resume", "--mask", "keys"),
        )
        assert "was recorded with other masks; allowed: the same as before" in other.stderr
        assert (await recorded(server, path, "--resume"))["messages"] == len(GAPS_MS) - 3
    assert path.read_text() == whole.read_text()


async def test_deliveries_are_not_recorded_again_by_a_run_that_continues(tmp_path: Path) -> None:
    path = tmp_path / "orders.jsonl"
    async with forked_broker("--clock", "manual") as broker, Client(broker.url) as client:
        await client.create_topic("orders", queues=2)
        await client.send("orders", "soon", delay_level=3, queue_id=1)
        await client.advance("1m")
        await client.send("orders", "late", delay_level=18, queue_id=1)
        await client.advance("9h")
        await client.send("orders", "recent", delay_level=3, queue_id=1)
        await client.advance("30s")
        await client.send("orders", "plain", queue_id=0)
        server = server_of(broker)
        assert (await recorded(server, path))["messages"] == 4
        # A broker takes the times in requests for wall time, so let the next run begin by an offset instead.
        path.write_text(path.read_text().replace('"from_offset":null', '"from_offset":0'))
        await client.send("orders", "later", delay_level=3, queue_id=1)
        await client.advance("30s")
        assert (await recorded(server, path, "--resume"))["messages"] == 1
    assert [each["body"] for each in lines(path)] == ["soon", "late", "recent", "plain", "later"]


async def test_a_recording_has_one_writer(tmp_path: Path) -> None:
    path = tmp_path / "orders.jsonl"
    async with forked_broker("--record", str(path)) as broker:
        second = await ended("serve", "--port", "0", "--data", ":memory:", "--record", str(path))
        assert second.code == 2
        resumed = await ended(
            *(
                "record",
                "--name-server",
                server_of(broker),
                "--topic",
                "TBW102",
                "--to",
                str(path),
                "--resume",
            )
        )
        assert resumed.code == 2
    for each in (second, resumed):
        assert f"{path} is being written by another process" in each.stderr


async def test_from_until_and_offsets_limit_what_is_recorded(tmp_path: Path) -> None:
    async with forked_broker() as broker, Client(broker.url) as client:
        await client.create_topic("orders", queues=1)
        sent = [(await client.send("orders", f"{number}"))["store_ms"] for number in range(7)]
        server, begin, end = server_of(broker), sent[2], sent[5]
        await recorded(server, tmp_path / "offset", "--from", "4")
        await recorded(server, tmp_path / "from", "--from", str(begin))
        await recorded(server, tmp_path / "until", "--until", str(end + 1))
    bodies = {name: [each["body"] for each in lines(tmp_path / name)] for name in ("offset", "from", "until")}
    assert bodies == {
        "offset": ["4", "5", "6"],
        "from": [f"{number}" for number, at_ms in enumerate(sent) if at_ms >= begin],
        "until": [f"{number}" for number, at_ms in enumerate(sent) if at_ms <= end],
    }


async def test_masks_hide_what_must_not_leave(tmp_path: Path) -> None:
    path, key = tmp_path / "orders.jsonl", tmp_path / "key"
    key.write_bytes(b"sixteen bytes or more")
    async with forked_broker("--clock", "manual") as broker, Client(broker.url) as client:
        await send_all(client)
        await client.send("orders", "no JSON, 13800138000", properties={"region": "eu"}, queue_id=0)
        masks = ("--mask", "body.phone=hash", "--mask", "keys", "--mask", "properties.region=hash")
        summary = await recorded(server_of(broker), path, *masks, "--mask-key", str(key))
        again = await ended(
            *("record", "--name-server", server_of(broker), "--topic", "orders", "--json"),
            *("--to", str(tmp_path / "nested"), "--mask", "body.customer.phone", "--mask", "keys"),
        )
    text = path.read_text()
    hashed = hmac.digest(key.read_bytes(), b"13800138000", "sha256").hex()[:16]
    assert "13800138000" not in text
    assert "order-" not in text
    assert '"eu"' not in text
    found = lines(path)
    assert found[-1]["body"] == "***"
    assert summary["notes"]["non-JSON bodies masked entirely"] == 1
    assert again.code == 0
    assert json.loads(again.stdout)["notes"] == {
        "non-JSON bodies masked entirely": 1,
        "matches of --mask body.customer.phone": 0,
    }
    assert again.stderr.startswith("warning: --mask body.customer.phone matched nothing")
    assert "keys" not in again.stderr
    assert {json.loads(each["body"])["phone"] for each in found[:-1]} == {hashed}
    assert {each["keys"][0] for each in found[:-1]} == {"***"}


async def test_delays_are_kept_and_no_message_is_pending_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "orders.jsonl"
    messages: list[dict[str, Any]] = [
        {"sent_at": "2030-01-31T08:00:00.000Z", "delay_level": 3},
        {"sent_at": "2030-01-31T08:00:01.000Z", "delay_ms": 90_000},
        {"sent_at": "2030-01-31T08:00:02.500Z", "deliver_at": "2030-01-31T09:00:00.000Z"},
        {"sent_at": "2030-01-31T08:00:02.500Z", "delay_ms": 10**15, "born_ms": 7},
    ]
    write(path, messages)
    async with forked_broker("--clock", "manual") as broker, Client(broker.url) as client:
        done = await ended("replay", str(path), "--url", broker.url, "--topic-map", "orders=tests", "--json")
        found = await read(client, "tests", 1)
    assert done.code == 1
    assert "line 5: delay_ms is 1000000000000000; allowed: a whole number from 0 to" in done.stderr
    assert "the broker refused 1 message" in done.stderr
    summary = json.loads(done.stdout)
    assert (summary["sent"], summary["delayed"], summary["refused"], summary["pending"]) == (3, 3, 1, 0)
    assert [each["store_ms"] - summary["began_ms"] for each in found] == [10_000, 91_000, 3_600_000]


def write(path: Path, messages: list[dict[str, Any]]) -> None:
    """Write a recording of a topic with one queue."""
    rows = [{"topic": "orders", "queue_id": 0, "body": "x", **each} for each in messages]
    header = {"recording": 1, "source": "test", "queues": {"orders": 1}}
    path.write_text("".join(json.dumps(row) + "\n" for row in (header, *rows)))


async def test_a_running_clock_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "orders.jsonl"
    write(path, [{"sent_at": f"2030-01-31T08:00:00.{ms:03}Z"} for ms in (0, 150, 300)])
    async with forked_broker() as broker, Client(broker.url) as client:
        done = await replayed(broker.url, path)
        assert not (await client.clock())["moved"]
        first, second, third = [each["store_ms"] for each in (await read(client, "orders", 1))]
        assert second >= first + 150 - (first - done["began_ms"])
        assert third >= first + 300 - (first - done["began_ms"])
        slow = await ended("replay", str(path), "--url", broker.url, "--speed", "0.5")
        assert slow.code == 2
        assert "allowed: at least 1, at which the broker's clock runs" in slow.stderr
        await replayed(broker.url, path, "--speed", "1000")
        assert (await client.clock())["moved"]


async def test_the_report_tells_how_late_replayed_messages_were(tmp_path: Path) -> None:
    path, data, out = tmp_path / "orders.jsonl", str(tmp_path / "data"), tmp_path / "report"
    minutes = [{"sent_at": f"2030-01-31T08:{minute:02}:00.000Z", "delay_level": 5} for minute in range(20)]
    write(path, [*minutes, {"sent_at": "2030-01-31T09:00:00.000Z", "delay_ms": 7_200_000}])
    async with forked_broker("--clock", "manual", "--data", data) as broker, Client(broker.url) as client:
        await client.add_fault("deliver-late", by="3s", level=5, next=4)
        done = await replayed(broker.url, path)
    assert (done["pending"], done["now_ms"] - done["began_ms"]) == (0, 10_800_000)
    reported = await ended("report", data, "--quick", "--json", "--out", str(out))
    assert reported.code == 0
    total = json.loads(reported.stdout)["lateness"][0]
    assert (total["measured"], total["early"], total["max_us"]) == (21, 0, 3_000_000)


async def test_queues_of_several_brokers_are_numbered_through(tmp_path: Path) -> None:
    path = tmp_path / "orders.jsonl"
    async with forked_broker("--clock", "manual", "--brokers", "2") as broker, Client(broker.url) as client:
        await client.create_topic("orders", queues=2)
        for number in range(8):
            await client.send("orders", f"{number}", queue_id=number % 4)
        await recorded(server_of(broker), path)
    found = lines(path)
    assert {(each["origin"]["broker"], each["origin"]["queue_id"]): each["queue_id"] for each in found} == {
        ("broker-a", 0): 0,
        ("broker-a", 1): 1,
        ("broker-b", 0): 2,
        ("broker-b", 1): 3,
    }
    async with forked_broker("--clock", "manual") as broker, Client(broker.url) as client:
        await replayed(broker.url, path)
        after = await read(client, queues=4)
    assert [each["body"] for each in after] == [
        each["body"] for queue_id in range(4) for each in found if each["queue_id"] == queue_id
    ]


async def test_a_broker_records_what_it_is_sent(tmp_path: Path) -> None:
    path = tmp_path / "orders.jsonl"
    delayed = [outgoing("level", delay_level=3), outgoing("timed", delay="1h")]
    async with (
        forked_broker("--clock", "manual", "--record", str(path)) as broker,
        Client(broker.url) as client,
        connected("127.0.0.1", broker.broker_port) as remoting,
    ):
        await client.create_topic("orders", queues=3)
        await client.send("orders", "plain", keys=["7"], tag="A", queue_id=2)
        await client.advance("90s")
        await client.send_batch("orders", delayed)
        half = await client.prepare("orders", "committed", group="makers", queue_id=1)
        await client.prepare("orders", "rolled back", group="makers")
        await client.advance("1s")
        await client.commit(half["message_id"])
        ext = send_ext("orders", "makers", 0, 0, {UNIQ_KEY: "by-remoting"})
        await remoting.ok(RequestCode.SEND_MESSAGE, ext, b"\xff")
    with path.open("a") as file:
        file.write('{"sent_at": "torn')  # by a kill
    async with forked_broker("--record", str(path)) as broker, Client(broker.url) as client:
        await client.send("orders", "by the second run")
    found = lines(path)
    bodies = ["plain", "level", "timed", "committed", None, "by the second run"]
    assert [each.get("body") for each in found] == bodies
    first_ms, level_ms, timed_ms, committed_ms = [instant_ms(each["sent_at"]) for each in found[:4]]
    assert [level_ms - first_ms, timed_ms - first_ms, committed_ms - first_ms] == [90_000, 90_000, 91_000]
    assert instant_ms(found[2]["deliver_at"]) - timed_ms == 3_600_000
    assert (found[0]["keys"], found[0]["tag"], found[0]["queue_id"], found[0]["queues"]) == (["7"], "A", 2, 3)
    assert (found[1]["delay_level"], found[3]["queue_id"], found[4]["body_base64"]) == (3, 1, "/w==")
    async with forked_broker("--clock", "manual") as broker, Client(broker.url) as client:
        assert (await replayed(broker.url, path))["sent"] == len(found)
        assert (await client.topic("orders"))["write_queues"] == 3
        assert len(await read(client, queues=3)) == len(found)


def instant_ms(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1_000)


@pytest.mark.parametrize("name", ["none/orders.jsonl", "other.jsonl"])
async def test_a_file_that_is_no_recording_is_refused_by_a_broker(name: str, tmp_path: Path) -> None:
    (tmp_path / "other.jsonl").write_text("{}\n")
    done = await ended("serve", "--port", "0", "--data", ":memory:", "--record", str(tmp_path / name))
    assert done.code == 2
    assert "--record is" in done.stderr
    assert "allowed: a new file, or the recording of an earlier run" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_signal_ends_a_replay_with_its_summary(number: signal.Signals, tmp_path: Path) -> None:
    path = tmp_path / "orders.jsonl"
    write(
        path,
        [{"sent_at": "2030-01-31T08:00:00.000Z", "delay_ms": ms} for ms in (0, 3_600_000)]
        + [{"sent_at": "2030-01-31T09:00:00.000Z"}],
    )
    async with forked_broker() as broker, Client(broker.url) as client:
        process = await started("replay", str(path), "--url", broker.url, "--json")
        async with asyncio.timeout(HANGING_S):
            while not await sent_count(client):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        process.send_signal(number)
        done = await result(process)
    assert done.code == 128 + number
    summary = json.loads(done.stdout)
    assert (summary["sent"], summary["delayed"], summary["pending"]) == (2, 1, 1)
    assert summary["now_ms"] > summary["began_ms"]


@pytest.mark.parametrize(
    ("last", "code", "said"),
    [
        ('{"sent_at": "1971-01-31T08:00:05.000Z"}', 2, "line 4: Object missing required field `topic`"),
        ('{"sent_at": "9999-01-31T08:00:00.000Z", "topic": "orders", "body": "x"}', 1, "instant_ms is"),
    ],
)
async def test_an_error_ends_a_replay_with_its_summary(
    last: str, code: int, said: str, tmp_path: Path
) -> None:
    path = tmp_path / "orders.jsonl"
    write(path, [{"sent_at": f"1971-01-31T08:00:0{second}.000Z", "delay_level": 18} for second in (0, 5)])
    with path.open("a") as file:
        file.write(last + "\n")
    async with forked_broker("--clock", "manual") as broker:
        done = await ended("replay", str(path), "--url", broker.url, "--json")
    assert done.code == code
    assert said in done.stderr
    summary = json.loads(done.stdout)
    assert (summary["sent"], summary["delayed"], summary["pending"]) == (2, 2, 2)
    assert summary["now_ms"] - summary["began_ms"] == 5_000


async def test_messages_of_system_topics_are_skipped(tmp_path: Path) -> None:
    path = tmp_path / "orders.jsonl"
    write(
        path,
        [
            {"sent_at": "2030-01-31T08:00:00.000Z", "topic": "RMQ_SYS_TRACE_TOPIC"},
            {"sent_at": "2030-01-31T08:00:00.000Z"},
        ],
    )
    async with forked_broker("--clock", "manual") as broker:
        done = await replayed(broker.url, path)
        assert (done["sent"], done["refused"], done["skipped"]) == (1, 0, 1)
        mapped = await replayed(broker.url, path, "--topic-map", "RMQ_SYS_TRACE_TOPIC=traces")
        assert (mapped["sent"], mapped["skipped"]) == (2, 0)


async def test_compressed_bodies_are_recorded_as_sent_and_replayed_inflated(tmp_path: Path) -> None:
    own, path = tmp_path / "own.jsonl", tmp_path / "orders.jsonl"
    sizes = (1_000, 5 << 20, 16 << 20)
    async with (
        forked_broker("--clock", "manual", "--record", str(own)) as broker,
        Client(broker.url) as client,
        connected("127.0.0.1", broker.broker_port) as remoting,
    ):
        await client.create_topic("orders", queues=1)
        for size in sizes:
            ext = send_ext("orders", "makers", 0, 0, {UNIQ_KEY: f"of-{size}"}, sys_flag=COMPRESSED_FLAG)
            await remoting.ok(RequestCode.SEND_MESSAGE, ext, zlib.compress(b"a" * size))
        summary = await recorded(server_of(broker), path)
    assert [each.get("compression") for each in lines(own)] == ["zlib"] * 3
    assert [each.get("compression") for each in lines(path)] == [None, "zlib", "zlib"]
    assert summary["notes"] == {ZLIB_KEPT: 2}
    for each in (own, path):
        async with forked_broker("--clock", "manual", "--max-message-bytes", "15M") as broker:
            done = await ended("replay", str(each), "--url", broker.url, "--json")
            async with Client(broker.url) as client:
                pages = [await client.browse("orders", 0, offset=offset) for offset in range(3)]
        assert (
            "line 4: the body is compressed with zlib; allowed: none, or intact zlib of at most 15 MiB"
            in done.stderr
        )
        assert [len(page["messages"][0]["body"]) for page in pages[:2]] == [1_000, 5 << 20]
        assert not pages[2]["messages"]


async def sent_count(client: Client) -> int:
    """Number of messages of the topic, which may not exist yet."""
    topics = {each["name"] for each in await client.topics()}
    return len(await read(client, "orders", 1)) if "orders" in topics else 0


@pytest.mark.parametrize("more", [(), ("--json",)])
async def test_a_signal_before_the_route_is_known_records_nothing(
    more: tuple[str, ...], tmp_path: Path
) -> None:
    path, asked = tmp_path / "orders.jsonl", asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        asked.set()
        await reader.read()
        writer.close()

    async with await asyncio.start_server(silent, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        process = await started(
            *("record", "--name-server", f"127.0.0.1:{port}", "--topic", "orders", "--to", str(path), *more)
        )
        async with asyncio.timeout(HANGING_S):
            await asked.wait()
        process.send_signal(signal.SIGINT)
        done = await result(process)
    assert (done.code, done.stdout) == (130, "")
    assert done.stderr == f"nothing was recorded into {path}: the recording ended before it began\n"
    assert not path.exists()


async def test_a_signal_ends_a_recording_which_has_what_was_read(tmp_path: Path) -> None:
    path = tmp_path / "orders.jsonl"
    async with forked_broker("--clock", "manual") as broker, Client(broker.url) as client:
        await client.create_topic("orders", queues=1)
        await client.send_batch("orders", [outgoing("x")] * 100)
        server = server_of(broker)
        slow = ("--until", "+1d", "--rate", "1/s")
        process = await started(
            *("record", "--name-server", server, "--topic", "orders", "--to", str(path), *slow)
        )
        async with asyncio.timeout(HANGING_S):
            while not path.exists() or not path.read_bytes():  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        process.send_signal(signal.SIGINT)
        done = await result(process)
        assert done.code == 130
        had = len(lines(path))
        assert (await recorded(server, path, "--resume"))["messages"] == 100 - had
    assert [each["origin"]["offset"] for each in lines(path)] == list(range(100))


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        ("record --topic orders --to {file}", 2, "give --name-server HOST:PORT"),
        ("record --grpc h:8081 --topic orders --to {file}", 2, "--grpc cannot be recorded from"),
        ("record --name-server {server} --topic none --to {file}", 1, "topic none does not exist"),
        ("record --name-server 127.0.0.1:9 --topic orders --to {file}", 3, "127.0.0.1:9 cannot be reached"),
        ("record --name-server {server} --topic a/b --to {file}", 2, "topic contains illegal characters"),
        ("record --name-server x --topic a --to {file} --mask phone", 2, "mask is 'phone'; allowed: body, a"),
        (
            "record --name-server x --topic a --to {file} --mask body.a=md5",
            2,
            "mask is 'body.a=md5'; allowed",
        ),
        ("record --name-server x --topic a --to {file} --from yesterday", 2, "'yesterday'; allowed: a time"),
        (
            "record --name-server x --topic a --to {file} --from 2030-01-31T08:00:00Z --until 1896076800000",
            2,
            "--until is 2030-01-31T08:00:00.000Z; allowed: a time after that of --from, which is"
            " 2030-01-31T08:00:00.000Z",
        ),
        (
            "record --name-server x --topic a --to {file} --rate 0",
            2,
            "'0'; allowed: messages a second from 1",
        ),
        ("replay {file} --url {url}", 2, "cannot be read: No such file"),
        ("replay {bad} --url {url}", 2, "is not a recording: its first line is not a recording header"),
        ("replay {new} --url {url}", 2, "has version 2 of the format; allowed: up to 1"),
        ("replay {torn} --url {url}", 2, "line 2: Object missing required field `sent_at`"),
        ("replay {when} --url {url}", 2, "line 2: sent_at is 'noon'; allowed: epoch milliseconds"),
        ("replay {torn} --url {url} --topic-map a", 2, "'a'; allowed: TOPIC=OTHER"),
        ("replay {torn} --url {url} --speed 0", 2, "0.0; allowed: a number above 0"),
        ("replay {torn} --url http://127.0.0.1:9", 3, "no broker answers at http://127.0.0.1:9"),
    ],
)
async def test_what_is_wrong_is_refused_with_a_sentence(
    command: str, code: int, said: str, tmp_path: Path
) -> None:
    words = {name: tmp_path / name for name in ("file", "bad", "new", "torn", "when")}
    words["bad"].write_text('{"topic": "orders"}\n')
    words["new"].write_text('{"recording": 2, "source": "", "queues": {}}\n')
    write(words["when"], [{"sent_at": "noon"}])
    words["torn"].write_text('{"recording": 1, "source": "", "queues": {}}\n{"topic": "orders"}\n')
    async with forked_broker("--no-auto-create-topics") as broker:
        done = await ended(*command.format(**words, url=broker.url, server=server_of(broker)).split())
    assert done.code == code
    assert said in done.stderr
    assert not words["file"].exists()
