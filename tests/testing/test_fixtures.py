"""Values of the plugin's fixtures."""

import pytest

from tests.testing.conftest import Run

pytest_plugins = ("pytester",)

PROJECT = """
import asyncio
import threading
from datetime import UTC, datetime, timedelta
from urllib.request import urlopen

import pytest

from mocketmq import BrokerError


def test_messages_and_time(mocketmq):
    mocketmq.create_topic("orders", queues=2)
    mocketmq.send("orders", "7", delay_level=16)
    assert mocketmq.receive("orders", group="billing") == []
    assert mocketmq.clock.advance("29m")["fired"] == 0
    assert mocketmq.clock.advance(timedelta(minutes=1))["fired"] == 1
    [message] = mocketmq.receive("orders", group="billing")
    assert message["body"] == "7"
    mocketmq.acknowledge("billing", [message])

    mocketmq.send("orders", "8", delay_level=3)
    before = mocketmq.clock.now()
    mocketmq.clock.next()
    assert mocketmq.clock.now() - before == timedelta(seconds=10)
    later = before + timedelta(days=1)
    mocketmq.clock.to(later)
    assert mocketmq.clock.now() == later
    mocketmq.faults.add("read-only")
    assert mocketmq.clock()["mode"] == "manual"
    assert len(mocketmq.topic("orders")["queues"]) == 2


def test_nothing_is_left_of_another_test(mocketmq):
    mocketmq.create_topic("orders")
    assert mocketmq.receive("orders", group="billing", max_messages=10) == []
    assert mocketmq.clock()["pending"] == 0
    assert mocketmq.faults() == []
    assert mocketmq.clock.now() - datetime.now(UTC) < timedelta(hours=1)


@pytest.mark.mocketmq(topics=["orders"])
def test_topics_stay(mocketmq):
    orders = mocketmq.create_topic("orders")
    assert (orders["read_queues"], orders["write_queues"]) == (2, 2)


@pytest.mark.mocketmq(forget=True, topics=["own"])
def test_topics_and_groups_are_forgotten(mocketmq):
    assert [topic["name"] for topic in mocketmq.topics() if not topic["system"]] == ["own"]
    assert mocketmq.groups() == []


def test_faults(mocketmq, mocketmq_async):
    fault = mocketmq.faults.add("refuse", error="SYSTEM_BUSY", operation="send", topic="bills", next=1)
    with pytest.raises(BrokerError):
        mocketmq.send("bills", "x")
    mocketmq.send("bills", "x")
    mocketmq.faults.remove(fault["name"])

    async def main():
        await mocketmq_async.faults.add("refuse", error="SYSTEM_BUSY", operation="send")
        assert [one["do"] for one in await mocketmq_async.faults()] == ["refuse"]
        assert len(await mocketmq_async.faults.clear()) == 1
    asyncio.run(main())
    assert mocketmq.faults() == []


def test_addresses(mocketmq):
    host, port = mocketmq.name_server.split(":")
    assert host == "127.0.0.1" and int(port) > 0
    with urlopen(mocketmq.http_url + "/readyz") as answer:
        assert answer.status == 200


def test_consumers_poll_for_a_second_while_tests_wait_longer(mocketmq):
    info = mocketmq.info()
    assert (info["max_long_poll_ms"], info["max_wait_ms"]) == (1_000, 30_000)


def test_several_threads_wait_at_once(mocketmq):
    received = []
    def receive(group):
        received.extend(mocketmq.receive("orders", group=group, wait="30s"))
    threads = [threading.Thread(target=receive, args=(group,)) for group in ("a", "b", "c")]
    for thread in threads:
        thread.start()
    mocketmq.send("orders", "for all")
    for thread in threads:
        thread.join()
    assert [message["body"] for message in received] == ["for all"] * 3


def test_async_operations_without_a_plugin_for_async_tests(mocketmq_async):
    async def main():
        await mocketmq_async.create_topic("orders")
        receiving = asyncio.create_task(mocketmq_async.receive("orders", group="g", wait="30s"))
        await mocketmq_async.send("orders", "größer", delay_level=1)
        await mocketmq_async.clock.advance("1s")
        [message] = await receiving
        assert message["body"] == "größer"
        later = await mocketmq_async.clock.now() + timedelta(seconds=1)
        await mocketmq_async.clock.to(later)
        assert (await mocketmq_async.clock())["now_ms"] == later.timestamp() * 1000
    asyncio.run(main())


def test_async_and_blocking_fixtures_share_a_broker(mocketmq, mocketmq_async):
    assert mocketmq_async.name_server == mocketmq.name_server
    assert mocketmq_async.http_url == mocketmq.http_url
    asyncio.run(mocketmq_async.send("orders", "x"))
    assert mocketmq.receive("orders", group="g")


@pytest.fixture(scope="module")
def application(mocketmq_session):
    return mocketmq_session.name_server


@pytest.mark.mocketmq(topics=["orders"])
class TestMarked:
    @pytest.mark.mocketmq(topics=["bills"])
    def test_topics_are_added(self, application, mocketmq):
        assert application == mocketmq.name_server
        assert {"orders", "bills"} <= {topic["name"] for topic in mocketmq.topics()}

    @pytest.mark.mocketmq(clock="x100000", levels=["5s", "2h"], brokers=2)
    def test_another_broker(self, application, mocketmq):
        assert application != mocketmq.name_server
        assert mocketmq.info()["levels"] == "5s 2h"
        assert len(mocketmq.brokers()) == 2
        mocketmq.send("orders", "x", delay_level=2)
        assert mocketmq.receive("orders", group="g", wait="30s")
"""


SEEDED = """
import pytest

pytestmark = pytest.mark.mocketmq(seed="waiting.toml")


def bodies(mocketmq):
    return sorted(one["body"] for one in mocketmq.receive("orders", group="billing", max_messages=9))


@pytest.mark.parametrize("time", [1, 2])
def test_each_test_begins_with_the_seeds(mocketmq, time):
    assert bodies(mocketmq) == ["of all tests", "waiting"]


@pytest.mark.mocketmq(seed=["more.csv"], clock="real")
def test_seeds_of_markers_are_added(mocketmq):
    assert bodies(mocketmq) == ["more", "of all tests", "waiting"]
    seeded = mocketmq.seed([{"topic": "orders", "body": "inline", "delay": "1h"}])
    assert (len(seeded["message_ids"]), seeded["pending"]) == (1, 1)


@pytest.mark.mocketmq(seed="wrong.jsonl")
def test_a_wrong_seed_fails_the_test(mocketmq): ...


@pytest.mark.mocketmq(seed="missing.toml")
def test_a_missing_seed_fails_the_test(mocketmq): ...
"""


def test_seeds(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makeini("[pytest]\nmocketmq_seed = all.jsonl\n")
    (pytester.path / "all.jsonl").write_text('{"topic": "orders", "body": "of all tests", "sent_at": "-2d"}')
    folder = pytester.mkdir("deep")
    (folder / "waiting.toml").write_text('[[messages]]\ntopic = "orders"\nbody = "waiting"\nsent_at = "-1d"')
    (folder / "more.csv").write_text("topic,body\norders,more\n")
    (folder / "wrong.jsonl").write_text('{"topic": "orders", "body": "x", "delay": "3 weeks"}')
    (folder / "test_seeded.py").write_text(SEEDED)
    told = run()
    told.assert_outcomes(passed=3, errors=2)
    told.stdout.fnmatch_lines(
        [
            "*wrong.jsonl, line 1, column 43: delay is '3 weeks'; allowed: a duration such as*",
            "*file is '*missing.toml'; allowed: a readable file in UTF-8*",
        ]
    )


SNAPSHOTS = """
import pytest


@pytest.fixture(scope="session", autouse=True)
def orders_waiting(mocketmq_session):
    mocketmq_session.send("orders", "waiting", delay_level=16)
    mocketmq_session.save_snapshot("orders-waiting")
    mocketmq_session.send("orders", "second", delay_level=16)
    mocketmq_session.save_snapshot("two-waiting")


@pytest.mark.parametrize("time", [1, 2])
@pytest.mark.mocketmq(snapshot="orders-waiting", topics=["more"])
def test_each_test_begins_with_the_snapshot_of_its_marker(mocketmq, time):
    assert mocketmq.topic("more")
    assert mocketmq.clock()["pending"] == 1
    assert mocketmq.clock.advance("30m")["fired"] == 1
    texts = [one["text"] for one in mocketmq.snapshot_differences("orders-waiting")]
    assert "1 message was delivered to orders" in texts


def test_all_others_begin_with_the_snapshot_of_the_settings(mocketmq):
    assert mocketmq.clock()["pending"] == 2
    assert [one["name"] for one in mocketmq.snapshots()] == ["orders-waiting", "two-waiting"]


@pytest.mark.mocketmq(snapshot="")
def test_one_without(mocketmq):
    assert mocketmq.clock()["pending"] == 0


@pytest.mark.mocketmq(snapshot="missing")
def test_a_missing_snapshot_fails_the_test(mocketmq): ...
"""


def test_snapshots(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makeini("[pytest]\nmocketmq_snapshot = two-waiting\n")
    pytester.makepyfile(SNAPSHOTS)
    told = run()
    told.assert_outcomes(passed=4, errors=1)
    told.stdout.fnmatch_lines(["*no snapshot is named missing; there are orders-waiting, two-waiting*"])


def test_a_project_without_any_setup(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile(PROJECT)
    run("-W", "error").assert_outcomes(passed=12)


MODES = """
import anyio
import pytest

pytestmark = pytest.mark.{mark}

@pytest.fixture
def anyio_backend():
    return "asyncio"

async def test_one(mocketmq, mocketmq_async):
    await mocketmq_async.send("orders", "x", delay_level=3)
    with anyio.move_on_after(0):
        await mocketmq_async.receive("orders", group="g", wait="30s")
    mocketmq.clock.advance("10s")
    assert await mocketmq_async.receive("orders", group="g")

async def test_two(mocketmq_async):
    assert await mocketmq_async.receive("orders", group="g") == []
"""


@pytest.mark.parametrize(
    ("mark", "options"),
    [
        ("asyncio", ("-p", "pytest_asyncio.plugin", "-o", "asyncio_mode=strict")),
        ("mocketmq", ("-p", "pytest_asyncio.plugin", "-o", "asyncio_mode=auto")),
        ("anyio", ("-p", "anyio")),
        ("anyio", ("-p", "anyio", "-p", "pytest_asyncio.plugin", "-o", "asyncio_mode=strict")),
    ],
)
def test_plugins_for_async_tests(
    pytester: pytest.Pytester, run: Run, mark: str, options: tuple[str, ...]
) -> None:
    loops = "asyncio_default_fixture_loop_scope = function\n" if "pytest_asyncio.plugin" in options else ""
    pytester.makeini(f"[pytest]\nfilterwarnings = error\n{loops}")
    pytester.makepyfile(MODES.format(mark=mark))
    run(*options).assert_outcomes(passed=2)


def test_fixtures_are_described_by_pytest(run: Run) -> None:
    fixtures = run("--fixtures")
    fixtures.stdout.re_match_lines_random(
        [
            "mocketmq -- .*",
            ".*A RocketMQ broker for this test: .*",
            "mocketmq_async -- .*",
            r"mocketmq_session \[session scope\] -- .*",
        ]
    )
    run("--markers").stdout.fnmatch_lines(["@pytest.mark.mocketmq(clock=*profile=*levels=*topics=*"])
    run("--help").stdout.fnmatch_lines(["*--mocketmq-url=URL*", "*mocketmq_command (args):*"])
