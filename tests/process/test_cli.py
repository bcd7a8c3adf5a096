"""The command line: a real broker process, and every command with its exit code."""

import asyncio
import json
import os
import re
import socket
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import click
import pytest

from mocketmq.cli import commands
from mocketmq.cli.output import instant
from tests.support.command_line import Ended, Shell, runner
from tests.support.patience import PATIENCE_S
from tests.support.process import StartError, broker_process, clean_environment, forked_broker

NOWHERE = "http://127.0.0.1:9"
EVERYWHERE = "0.0.0.0"  # noqa: S104 - what the warning is about
DAMAGED = b"not a database" * 1_000
INSTANT = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"


PATIENT = f"from mocketmq.cli import info; info._PATIENCE_S = {PATIENCE_S}"
"""Code that lengthens the health check's timeout, for busy machines."""


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lengthen the timeout for commands of this process too."""
    monkeypatch.setattr("mocketmq.cli.info._PATIENCE_S", PATIENCE_S)


async def mocketmq(*args: str, stdin: bytes = b"", code: str = "") -> Ended:
    """Run the command in its own process; ``code`` is Python that runs before it."""
    command = ("-c", f"{code}\nfrom mocketmq.cli import main; main()") if code else ("-m", "mocketmq")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, *command, *args), env=clean_environment(), stdin=PIPE, stdout=PIPE, stderr=PIPE
    )
    stdout, stderr = await process.communicate(stdin)
    assert process.returncode is not None
    return Ended(process.returncode, stdout.decode(), stderr.decode())


@pytest.fixture
async def shell() -> AsyncIterator[Shell]:
    async with forked_broker("--clock", "manual") as process:
        yield Shell(process.url)


# serve


async def test_the_start_line_shows_all_addresses(tmp_path: Path) -> None:
    async with broker_process("--data", str(tmp_path), "--clock", "x60", "--profile", "rocketmq4") as process:
        assert re.fullmatch(
            r"mocketmq \S+ is ready after \d+\.\d\d s: JSON API at http://127\.0\.0\.1:\d+,"
            r" name server at 127\.0\.0\.1:\d+, broker port \d+, gRPC at 127\.0\.0\.1:\d+,"
            rf" data in {tmp_path}, clock x60, profile rocketmq4, levels 1s 5s 10s 30s 1m .* 1h 2h\n",
            process.start_line,
        )


async def test_second_start_on_same_data_names_the_owner(tmp_path: Path) -> None:
    async with forked_broker("--data", str(tmp_path)) as first:
        with pytest.raises(StartError, match=f"pid {first.pid}") as refusal:
            async with forked_broker("--data", str(tmp_path)):
                pass
    assert refusal.value.returncode == 5
    async with forked_broker("--data", str(tmp_path)):
        pass


async def test_sigterm_stops_the_broker_in_order(tmp_path: Path) -> None:
    async with forked_broker("--data", str(tmp_path)) as process:
        shell = Shell(process.url)
        sent = await shell.json("send", "orders", "kept", "--level", "18")
        process.terminate()
        assert await process.wait() == 0
        assert "Traceback" not in process.stderr
    async with forked_broker("--data", str(tmp_path)) as process:
        assert (await Shell(process.url).json("message", sent["message_id"]))["state"] == "pending"


@pytest.mark.parametrize(
    ("args", "code", "sentence"),
    [
        (("--levels", "1s 5x"), 2, "--levels is '1s 5x'; allowed: 1 to 1000 whole numbers"),
        (("--tls-key", "key.pem"), 2, "--tls-key is 'key.pem'; allowed: only with tls_cert"),
        (("--clock", "fast"), 2, "--clock is 'fast'; allowed: real, manual"),
        (
            ("--http-port", "99999"),
            2,
            "--http-port is '99999'; allowed: a whole number from 0 to 65535",
        ),
        (("--config", "missing.toml"), 2, "setting config is 'missing.toml'"),
        (("--no-such-option",), 2, "No such option"),
    ],
)
async def test_wrong_usage_is_reported_in_one_sentence(
    args: tuple[str, ...], code: int, sentence: str
) -> None:
    with pytest.raises(StartError) as refusal:
        async with forked_broker(*args):
            pass
    assert refusal.value.returncode == code
    assert sentence in refusal.value.stderr
    assert "Traceback" not in refusal.value.stderr


def damage(directory: Path) -> Path:
    (database,) = directory.glob("*.db")
    database.write_bytes(DAMAGED)
    return database


async def test_unreadable_database_is_reported_and_unchanged(tmp_path: Path) -> None:
    async with forked_broker("--data", str(tmp_path)):
        pass
    database = damage(tmp_path)
    with pytest.raises(StartError, match=re.escape(str(database))) as refusal:
        async with forked_broker("--data", str(tmp_path)):
            pass
    assert refusal.value.returncode == 5
    assert "Traceback" not in refusal.value.stderr
    assert database.read_bytes() == DAMAGED


async def test_taken_port_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(StartError, match=str(port)) as refusal:
            async with forked_broker("--http-port", str(port)):
                pass
    assert refusal.value.returncode == 5
    assert "Traceback" not in refusal.value.stderr


async def test_open_door_without_token_logs_a_warning(tmp_path: Path) -> None:
    users = tmp_path / "users.yml"
    users.write_text("users: []")
    async with forked_broker("--host", EVERYWHERE) as open_door:
        open_door.terminate()
        await open_door.wait()
        assert "anyone who can reach 0.0.0.0 can use this broker" in open_door.stderr
    for args, variables in (
        (("--host", EVERYWHERE, "--token", "secret"), {}),
        (("--host", EVERYWHERE, "--acl", str(users)), {}),
        (("--host", "127.0.0.1"), {}),
        (("--host", EVERYWHERE), {"container": "oci"}),  # access goes through its published ports
    ):
        async with forked_broker(*args, env=variables) as process:
            process.terminate()
            await process.wait()
            assert "anyone" not in process.stderr


async def test_settings_come_from_a_file_and_the_environment(tmp_path: Path) -> None:
    config = tmp_path / "broker.toml"
    config.write_text('clock = "manual"\n[[topics]]\nname = "declared"\n')
    async with forked_broker(env={"MOCKETMQ_CONFIG": str(config), "MOCKETMQ_LEVELS": "7s"}) as process:
        assert process.start_line.endswith("clock manual, profile exact, levels 7s\n")
        topics = (await Shell(process.url).json("topics"))["topics"]
        assert "declared" in [topic["name"] for topic in topics]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("levels = 7", "line 1, column 10"),
        ('levels = "1s 5s x"', "line 1, column 10"),
        ('levels = "1s"\ntls_key = "key.pem"', "line 2, column 11"),
    ],
)
async def test_settings_that_are_refused_late_are_named_with_their_place_in_the_file(
    tmp_path: Path, text: str, place: str
) -> None:
    config = tmp_path / "broker.toml"
    config.write_text(text)
    for args in ((), ("--levels", "7", "--tls-key", "key.pem")):
        with pytest.raises(StartError) as refusal:
            async with forked_broker("--config", str(config), *args):
                pass
        assert refusal.value.returncode == 2
        assert (f" (given by {config}, {place})\n" in refusal.value.stderr) is (not args)


async def test_dying_timer_ends_the_broker() -> None:
    code = """if True:
        from mocketmq.schedule.timer import Timer
        async def die(self): raise RuntimeError("a defect")
        Timer._run = die
    """
    ended = await mocketmq("serve", "--port", "0", "--data", ":memory:", code=code)
    assert ended.code == 70
    assert "the timer failed" in ended.stderr
    assert "RuntimeError: a defect" in ended.stderr


# Clients


def test_help_explains_the_exit_codes() -> None:
    shown = runner().invoke(commands, ["--help"])
    assert shown.exit_code == 0
    assert re.search(r"3 +the broker cannot be reached", shown.stdout)
    for command in commands.list_commands(click.Context(commands)):
        assert re.search(rf"^  {command} +[A-Z]", shown.stdout, re.MULTILINE)


async def test_a_standing_clock_is_told_with_the_number_of_large_messages(shell: Shell) -> None:
    for _ in range(3):
        large = ("send", "orders", "-", "--level", "3", "--url", shell.url)
        assert (await mocketmq(*large, stdin=b"x" * (2 << 20))).code == 0
    nothing = await shell("receive", "orders", "--group", "g")
    assert "was not moved; 3 delayed for the group" in nothing.stdout


async def test_send_advance_receive_and_acknowledge(shell: Shell) -> None:
    sent = await shell.json(
        *("send", "orders", "naïve", "--level", "3", "--tag", "paid", "--key", "o1", "--key", "c2"),
        *("--property", "region=eu=west", "--queue", "2"),
    )
    assert (sent["delay_level"], sent["due_ms"] - sent["store_ms"], sent["queue_id"]) == (3, 10_000, 2)
    nothing = await shell("receive", "orders", "--group", "g")
    assert (nothing.code, nothing.stdout) == (
        4,
        "nothing to receive from orders for group g\n"
        "the clock is manual and was not moved; 1 delayed for the group, the next due"
        f" {instant(sent['due_ms'], sent['store_ms'])}\n",
    )
    assert (await shell.json("clock", "advance", "10s"))["fired"] == 1
    (message,) = (await shell.json("receive", "orders", "--group", "g", "--wait", "1s"))["messages"]
    assert (message["body"], message["tag"], message["keys"]) == ("naïve", "paid", ["o1", "c2"])
    assert message["properties"]["region"] == "eu=west"
    assert message["store_ms"] == sent["due_ms"]

    life = await shell("message", sent["message_id"])
    assert life.stdout.startswith(f"message {sent['message_id']} is delivered, acknowledged\n")
    happened = re.findall(rf"^{INSTANT} +(\+\S+) +(.*?) *$", life.stdout, re.MULTILINE)
    assert [after for after, _ in happened] == ["+0", "+10s", "+10s", "+10s", "+10s"]
    assert happened[0][1].startswith("sent to orders by http, parked (level 3) for 10s until ")
    assert [what for _, what in happened[1:]] == [
        "due",
        "delivered to orders, on time",
        "taken by g",
        "acknowledged by g",
    ]
    assert (await shell.json("message", sent["message_id"]))["state"] == "delivered"
    assert (await shell("message", "00")).code == 4


async def test_the_highest_priority_is_received_first(shell: Shell) -> None:
    await shell("topics", "create", "alarms", "--type", "priority", "--queues", "10")
    for priority in ("1", "9", "5"):
        sent = await shell.json("send", "alarms", f"alarm {priority}", "--priority", priority)
        assert sent["queue_id"] == int(priority)
    received = await shell.json("receive", "alarms", "--group", "watch", "--max", "2")
    assert [one["body"] for one in received["messages"]] == ["alarm 9", "alarm 5"]
    refused = await shell("send", "orders", "x", "--priority", "9")
    assert refused.code == 1
    assert "--priority is 9; allowed: no value, because the topic is not of type priority" in refused.stderr


async def test_send_takes_a_delay_without_a_level(shell: Shell) -> None:
    sent = await shell.json("send", "orders", "in a while", "--delay", "1500.5ms")
    assert (sent["delay_level"], sent["due_ms"] - sent["store_ms"]) == (0, 1_501)
    shown = await shell("send", "orders", "in a while", "--delay", "90s", "--queue", "1")
    assert re.fullmatch(rf"\w+ → orders queue 1: due {INSTANT}, in 1m30s\n", shown.stdout)
    shown = await shell("send", "orders", "soon", "--level", "3", "--queue", "1")
    assert re.fullmatch(rf"\w+ → orders queue 1, level 3: due {INSTANT}, in 10s\n", shown.stdout)
    shown = await shell("send", "orders", "now", "--delay", "0", "--queue", "1")
    assert re.fullmatch(r"\w+ → orders queue 1, offset 0\n", shown.stdout)


async def test_send_takes_a_due_instant(shell: Shell) -> None:
    at = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=1)
    at_ms = int(at.timestamp()) * 1_000
    for text in (str(at_ms), at.isoformat(), at.astimezone(timezone(-timedelta(hours=5))).isoformat()):
        sent = await shell.json("send", "orders", "x", "--at", text)
        assert 3_000_000 < sent["due_ms"] - sent["store_ms"] <= 3_600_000
    parked = (await shell.json("delayed", "ls"))["messages"]
    assert [message["properties"]["__STARTDELIVERTIME"] for message in parked] == [str(at_ms)] * 3
    ended = await shell("send", "orders", "x", "--at", "2020-01-01T00:00:00.0005Z", "--queue", "0", "--json")
    assert ended.stderr.startswith("Note: --at 2020-01-01T00:00:00.0005Z has passed")
    passed = json.loads(ended.stdout)
    assert passed["due_ms"] is None
    (message,) = (await shell.json("receive", "orders", "--group", "g"))["messages"]
    assert message["properties"]["__STARTDELIVERTIME"] == "1577836800001"


async def test_send_reads_the_body_from_standard_input(shell: Shell) -> None:
    assert (await mocketmq("send", "orders", "-", "--url", shell.url, stdin=b"\xff\x00 raw")).code == 0
    (message,) = (await shell.json("receive", "orders", "--group", "g"))["messages"]
    assert message["body_base64"] == "/wAgcmF3"


async def test_output_cannot_control_the_terminal(shell: Shell) -> None:
    await shell("send", "orders", "\x1b[2Jred [bold]not markup[/bold]")
    shown = (await shell("receive", "orders", "--group", "g")).stdout
    assert "\\x1b[2Jred [bold]not markup[/bold]" in shown


async def test_receive_filters_by_tags_and_may_skip_acknowledging(shell: Shell) -> None:
    for tag in ("A", "B", "A"):
        await shell("send", "orders", f"body {tag}", "--tag", tag)
    taken = await shell("receive", "orders", "--group", "g", "--max", "9", "--filter", "A || C", "--no-ack")
    assert (taken.code, taken.stdout.count("body A"), taken.stdout.count("body B")) == (0, 2, 0)
    assert (await shell("receive", "orders", "--group", "g")).code == 4
    await shell("clock", "advance", "30s")
    again = (await shell.json("receive", "orders", "--group", "g", "--max", "9"))["messages"]
    assert [message["body"] for message in again] == ["body A", "body A"]


async def test_receive_filters_by_properties(shell: Shell) -> None:
    for price in ("9", "11"):
        await shell("send", "orders", f"price {price}", "--property", f"price={price}")
    options = ("receive", "orders", "--group", "g", "--max", "9")
    both = await shell(*options, "--sql", "price > 10", "--filter", "A")
    assert (both.code, "only one of --filter and --sql" in both.stderr) == (2, True)
    wrong = await shell(*options, "--sql", "price >")
    assert "line 1, column 8 of the filter" in wrong.stderr
    taken = await shell(*options, "--sql", "price > 10")
    assert (taken.code, taken.stdout.count("price 11"), taken.stdout.count("price 9")) == (0, 1, 0)


async def test_delayed_messages_are_listed_cancelled_and_delivered(shell: Shell) -> None:
    assert (await shell("delayed", "ls")).stdout == "nothing is pending\n"
    first = await shell.json("send", "orders", "1", "--level", "4")
    second = await shell.json("send", "bills", "2", "--level", "5")
    listed = (await shell("delayed", "ls")).stdout
    assert re.search(rf"^{INSTANT} +in 30s +4 +orders +\d +{first['message_id']}", listed, re.MULTILINE)
    page = await shell.json("delayed", "ls", "--max", "1")
    assert [message["message_id"] for message in page["messages"]] == [first["message_id"]]
    page = await shell.json(
        "delayed", "ls", "--after", str(page["next_after"]), "--level", "5", "--topic", "bills"
    )
    assert [message["message_id"] for message in page["messages"]] == [second["message_id"]]

    levels = (await shell("levels")).stdout
    assert re.search(rf"^ +4 +30s +1 +0 +1 +{INSTANT} +in 30s +– +– +– *$", levels, re.MULTILINE)
    assert [level["pending"] for level in (await shell.json("levels"))["levels"]].count(1) == 2

    assert (await shell("delayed", "cancel", first["message_id"])).stdout.startswith("cancelled ")
    assert (await shell("delayed", "cancel", first["message_id"])).code == 1
    assert (await shell("delayed", "deliver", second["message_id"])).stdout.startswith("delivered ")
    assert (await shell("delayed", "deliver", "00")).code == 4
    assert "cancelled\n" in (await shell("message", first["message_id"])).stdout
    assert "delivered to bills by hand" in (await shell("message", second["message_id"])).stdout


async def test_the_clock_is_shown_and_moved(shell: Shell) -> None:
    assert re.fullmatch(rf"{INSTANT}, clock manual\nnothing is pending\n", (await shell("clock")).stdout)
    assert (await shell("clock", "next")).code == 1
    sent = await shell.json("send", "orders", "1", "--level", "5")
    assert re.search(
        rf"^1 pending, the next due {INSTANT} \(in 1m\)$", (await shell("clock")).stdout, re.MULTILINE
    )
    assert (await shell.json("clock", "next"))["now_ms"] == sent["due_ms"]
    moved = await shell("clock", "advance", "1h30m")
    assert ", moved by 1h30m: 0 delivered\n" in moved.stdout
    assert (await shell.json("clock"))["now_ms"] == sent["due_ms"] + 5_400_000
    assert (await shell("clock", "to", str(sent["due_ms"]))).code == 1
    assert (await shell("clock", "to", str(sent["due_ms"] + 5_400_001))).code == 0
    assert (await shell("clock", "advance", "soon")).code == 2
    assert (await shell("clock", "sideways")).code == 2


async def test_reset_restarts_the_clock_and_deletes_messages(shell: Shell) -> None:
    await shell("send", "orders", "1")
    before = await shell.json("clock")
    await shell("clock", "advance", "1h")
    assert (await shell("reset", "--clock", "0")).code == 1
    assert (await shell("reset", "--topic", "orders", "--forget")).code == 2
    said = (await shell("reset", "--clock", "start", "--forget")).stdout
    assert said.startswith("the broker is empty, and its clock begins at 20")
    assert (await shell.json("clock"))["now_ms"] <= before["now_ms"]
    assert "orders" not in (await shell("topics")).stdout


async def test_topics_groups_and_reset(shell: Shell) -> None:
    assert (await shell("groups")).stdout == "no consumer groups\n"
    await shell("send", "orders", "1", "--queue", "0")
    await shell("receive", "orders", "--group", "g", "--no-ack")
    topics = (await shell("topics")).stdout
    assert re.search(r"^orders +rw +mixed +4 +4 +1 *$", topics, re.MULTILINE)
    assert re.search(r"^SCHEDULE_TOPIC_XXXX .* system *$", topics, re.MULTILINE)
    assert re.search(r"^g +orders +0 +0 +1 +1 +1 +0 *$", (await shell("groups")).stdout, re.MULTILINE)
    assert [group["name"] for group in (await shell.json("groups"))["groups"]] == ["g"]
    for name in ("topics", "groups", "clients"):
        bare, listed = await shell(name), await shell(name, "ls")
        assert (listed.code, listed.stdout) == (0, bare.stdout)
        assert name in await shell.json(name, "ls")
    assert (await shell("reset", "--topic", "orders")).stdout == "topic orders is empty\n"
    assert (await shell("reset", "--topic", "nowhere")).code == 4
    assert (await shell.json("reset"))["reset"] == "all"
    assert (await shell("topics", "create", "made", "--queues", "2")).stdout == "topic made has 2 queues\n"
    kept = (await shell("topics", "create", "made", "--type", "delay")).stdout
    assert kept == "topic made has 2 queues and accepts delay messages\n"
    await shell("send", "made", "1", "--level", "3")
    told = (await shell("topics", "delete", "made")).stdout
    assert told == "topic made is deleted; 1 pending messages are cancelled\n"
    assert (await shell("topics", "delete", "made")).code == 4
    assert (await shell("groups", "create", "g", "--max-retries", "3")).code == 0
    kept = (await shell("groups", "create", "g", "--fifo")).stdout
    assert kept == "group g retries a message 3 times\n"
    assert (await shell("groups", "delete", "g")).stdout == "group g is deleted\n"
    assert (await shell("groups", "delete", "g")).code == 4


async def test_missing_token_is_requested() -> None:
    async with forked_broker("--token", "secret") as process:
        shell = Shell(process.url)
        assert (await shell("levels")).code == 1
        assert (await shell("levels", "--token", "secret")).code == 0
        assert (await Shell(process.url, **{"MOCKETMQ_TOKEN": "secret"})("levels")).code == 0
        assert (await shell("healthcheck")).code == 0


async def test_the_health_check(shell: Shell) -> None:
    assert await shell("healthcheck") == Ended(0, "ready\n", "")
    assert (await mocketmq("healthcheck", "--url", shell.url, code=PATIENT)).code == 0
    assert await shell.json("healthcheck") == {"status": "ready"}
    assert (await mocketmq("healthcheck", "--url", NOWHERE)).code == 3
    assert (await mocketmq("healthcheck", "--url", "nonsense")).code == 2


async def test_missing_client_has_its_own_exit_code() -> None:
    ended = await mocketmq("topics", "--url", NOWHERE)
    assert ended.code == 3
    assert ended.stderr == (
        f"Error: no broker answers at {NOWHERE}; start one with `mocketmq serve`, or give another address\n"
    )


def test_test_environment_has_no_settings() -> None:
    assert not any(name.startswith("MOCKETMQ_") for name in clean_environment())
    assert len(clean_environment()) <= len(os.environ)
