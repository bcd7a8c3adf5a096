"""First commands of new users: ``info``, ``--url`` before the command, completed values, hints on typos."""

from collections.abc import AsyncIterator

import pytest

from mocketmq import __version__
from mocketmq.cli import commands
from tests.process.test_cli_help import complete
from tests.support.command_line import Shell, runner
from tests.support.process import forked_broker


@pytest.fixture
async def shell() -> AsyncIterator[Shell]:
    async with forked_broker("--clock", "manual") as process:
        yield Shell(process.url)


async def test_info_shows_every_address_and_how_the_broker_runs(shell: Shell) -> None:
    shown = (await shell("info")).stdout
    found = await shell.json("info")
    assert found["version"] == __version__
    for door in found["doors"].values():
        assert door["address"] in shown
    for text in ("name server ", "gRPC ", "clock ", "manual", "longest wait", "30s", "compiled "):
        assert text in shown


async def test_the_address_may_stand_before_the_command(shell: Shell) -> None:
    elsewhere = Shell("http://127.0.0.1:9")
    for before in (("--url", shell.url), (f"--url={shell.url}",), ("--url", shell.url, "--token", "x")):
        ended = await elsewhere(*before, "topics", "create", "orders")
        assert (ended.code, ended.stderr) == (0, ""), ended
        assert (await elsewhere(*before, "send", "--", "orders", "--body")).code == 0
    assert (await elsewhere("--url", shell.url)).code == 2
    assert "No such option" in (await elsewhere("--url", shell.url, "serve")).stderr


async def test_values_are_completed(shell: Shell) -> None:
    await shell("topics", "create", "orders")
    await shell("groups", "create", "billing")
    await shell("faults", "add", "hold", "name=storm")
    for words, offered in (
        ("mocketmq send ord", ["orders"]),
        ("mocketmq receive orders --group b", ["billing"]),
        ("mocketmq find 7 --topic ord", ["orders"]),
        ("mocketmq faults add deliver-l", ["deliver-late"]),
        ("mocketmq faults rm st", ["storm"]),
        ("mocketmq serve --profile r", ["rocketmq4"]),
        ("mocketmq serve --start-deliver-time a", ["aliyun4", "aliyun5"]),
        ("mocketmq topics create orders --type f", ["fifo"]),
    ):
        told = complete(words, MOCKETMQ_URL=shell.url).stdout
        assert [line.partition(",")[2] for line in told.split()] == offered, words


def test_without_a_broker_no_names_are_completed() -> None:
    assert complete("mocketmq send ord", MOCKETMQ_URL="http://127.0.0.1:9").stdout.strip() == ""


async def test_a_receive_of_an_unknown_topic_makes_none(shell: Shell) -> None:
    await shell("topics", "create", "orders")
    ended = await shell("receive", "order", "--group", "g")
    assert (ended.code, ended.stderr) == (4, "Error: topic order does not exist; did you mean orders?\n")
    assert {"order"}.isdisjoint(topic["name"] for topic in (await shell.json("topics"))["topics"])
    assert (await shell("receive", "order", "--group", "g", "--wait", "1ms")).code == 4
    assert {"order"} <= {topic["name"] for topic in (await shell.json("topics"))["topics"]}


@pytest.mark.parametrize(
    ("settings", "at", "note"),
    [
        (
            (),
            "2001-01-01T00:00:00Z",
            "Note: --at 2001-01-01T00:00:00Z has passed: the message is delivered at once\n",
        ),
        (
            ("--start-deliver-time", "aliyun5"),
            "9000-01-01T00:00:00Z",
            "Note: --at 9000-01-01T00:00:00Z is too far ahead: the message is delivered at once\n",
        ),
    ],
)
async def test_an_instant_without_effect_has_a_note(settings: tuple[str, ...], at: str, note: str) -> None:
    async with forked_broker("--clock", "manual", *settings) as process:
        ended = await Shell(process.url)("send", "orders", "x", "--at", at)
    assert (ended.code, ended.stderr) == (0, note)


def test_a_port_for_all_points_to_that_of_http() -> None:
    told = runner().invoke(commands, ["serve", "--port", "9877"])
    assert "--port is '9877'; allowed: 0, which picks free ports; --http-port (http_port)" in told.stderr
