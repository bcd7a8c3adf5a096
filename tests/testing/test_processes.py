"""The processes of brokers: how they start, and that none is left behind."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from tests.support.network import quiet_port
from tests.support.patience import HANGING_S
from tests.support.process import clean_environment, forked_broker
from tests.testing.conftest import PLUGIN, Run

pytest_plugins = ("pytester",)

SEEN = """
import json, os, pathlib
import pytest

@pytest.fixture
def seen(mocketmq):
    seen = {"url": mocketmq.http_url, "name_server": mocketmq.name_server, "pid": mocketmq.process.pid,
            "worker": os.environ.get("PYTEST_XDIST_WORKER")}
    with open("seen.json", "a") as file:
        file.write(json.dumps(seen) + chr(10))
    return seen
"""
"""A fixture that records the broker of a test."""


def seen(pytester: pytest.Pytester) -> list[dict[str, str]]:
    return [json.loads(line) for line in (pytester.path / "seen.json").read_text().splitlines()]


def assert_gone(*pids: object) -> None:
    running = [psutil.Process(pid) for pid in map(int, map(str, pids)) if psutil.pid_exists(pid)]
    assert not psutil.wait_procs(running, HANGING_S)[1]


def test_each_worker_has_a_broker(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makeconftest(SEEN)
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.parametrize("number", range(40))
        def test_alone(mocketmq, seen, number):
            assert mocketmq.receive("orders", group="g") == []
            mocketmq.send("orders", str(number), delay_level=18)
            mocketmq.clock.advance("2h")
            [message] = mocketmq.receive("orders", group="g", max_messages=9)
            assert message["body"] == str(number)
        """
    )
    run("-p", "xdist", "-n", "4").assert_outcomes(passed=40)
    brokers = {(one["worker"], one["name_server"], one["pid"]) for one in seen(pytester)}
    assert len({worker for worker, _, _ in brokers}) == len(brokers) == 4
    assert_gone(*(pid for _, _, pid in brokers))


def test_a_cluster_that_died_has_its_ports_again(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makeini("[pytest]\nmocketmq_options = --brokers 3 --name-servers 2")
    pytester.makepyfile(
        """
        import os, signal

        ports = []

        def opened(doors):
            names = [door["port"] for door in doors["name_servers"]]
            return [*names, *(door["port"] for each in doors["brokers"].values() for door in each.values())]

        def test_dies(mocketmq):
            ports.extend(opened(mocketmq.info()["doors"]))
            assert mocketmq.name_server == f"127.0.0.1:{ports[0]};127.0.0.1:{ports[1]}"
            os.kill(mocketmq.process.pid, signal.SIGKILL)
            while mocketmq.process.is_running:
                pass

        def test_the_next_one(mocketmq):
            assert opened(mocketmq.info()["doors"]) == ports
        """
    )
    run().assert_outcomes(passed=2, errors=1)


def test_a_restart_waits_for_a_port_that_is_used_meanwhile(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makeconftest(
        """
        import pytest
        from mocketmq.testing import brokers

        taken = []

        class FreesThePort(brokers.BrokerProcess):
            def __init__(self, *args):
                try:
                    super().__init__(*args)
                finally:
                    if taken:
                        taken.pop().close()

        @pytest.fixture
        def taken_ports(monkeypatch):
            monkeypatch.setattr(brokers, "BrokerProcess", FreesThePort)
            return taken
        """
    )
    pytester.makepyfile(
        """
        import os, signal, socket

        ports = []

        def test_dies(mocketmq, taken_ports):
            ports.append(mocketmq.doors["broker"]["port"])
            os.kill(mocketmq.process.pid, signal.SIGKILL)
            while mocketmq.process.is_running:
                pass
            for _ in range(2):
                taken_ports.append(socket.create_server(("127.0.0.1", ports[0]), reuse_port=True))

        def test_the_next_one(taken_ports, mocketmq):
            assert mocketmq.doors["broker"]["port"] == ports[0]
            assert not taken_ports
        """
    )
    run().assert_outcomes(passed=2, errors=1)


def test_a_broker_dies(pytester: pytest.Pytester, run: Run) -> None:
    doors = ("http", "namesrv", "broker", "grpc")
    ports = " ".join(f"--{door}-port {quiet_port()}" for door in doors)  # nobody else takes them
    pytester.makeini(f"[pytest]\nmocketmq_options = {ports}")
    pytester.makeconftest(SEEN)
    pytester.makepyfile(
        """
        import os, signal

        def test_dies_unnoticed(mocketmq, seen):
            os.kill(seen["pid"], signal.SIGKILL)
            while mocketmq.process.is_running:
                pass

        def test_dies(mocketmq, seen):
            os.kill(seen["pid"], signal.SIGABRT)
            while mocketmq.process.is_running:
                pass
            mocketmq.send("orders", "lost")

        def test_the_next_one(mocketmq, seen):
            mocketmq.send("orders", "kept")
            assert mocketmq.receive("orders", group="g")
        """
    )
    told = run()
    told.assert_outcomes(passed=2, failed=1, errors=1)
    told.stdout.fnmatch_lines(
        [
            "*ERROR at teardown of test_dies_unnoticed*",
            "the broker died by SIGKILL in this test; its last lines:",
            "mocketmq * is ready after *",
            "E *no broker answers at http://127.0.0.1:*",
            "*-- mocketmq --*",
            "the broker died by SIGABRT; its last lines:",
            "mocketmq * is ready after *",
        ],
    )
    brokers = seen(pytester)
    assert len({one["pid"] for one in brokers}) == 3
    assert len({(one["url"], one["name_server"]) for one in brokers}) == 1  # so clients can continue


@contextmanager
def waiting_tests(pytester: pytest.Pytester, *options: str) -> Iterator[subprocess.Popen[str]]:
    """Run tests that wait for ever, in a process group as a terminal would create it."""
    pytester.makeconftest(SEEN)
    pytester.makepyfile(
        """
        import threading, pytest

        @pytest.mark.parametrize("number", range(2))
        def test_waits(seen, number):
            threading.Event().wait()
        """
    )
    command = [sys.executable, "-m", "pytest", "-p", PLUGIN, *options]
    env = {**clean_environment(), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    with subprocess.Popen(
        command, env=env, cwd=pytester.path, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def await_brokers(pytester: pytest.Pytester, count: int) -> list[str]:
    """Wait until the tests wait, and return the processes of the brokers."""
    by = time.monotonic() + HANGING_S
    while time.monotonic() < by:
        if (pytester.path / "seen.json").exists() and len(brokers := seen(pytester)) == count:
            return [one["pid"] for one in brokers]
        time.sleep(0.01)
    raise AssertionError("no test has begun")


@pytest.mark.parametrize(("options", "count"), [((), 1), (("-p", "xdist", "-n", "2"), 2)])
def test_ctrl_c(pytester: pytest.Pytester, options: tuple[str, ...], count: int) -> None:
    with waiting_tests(pytester, *options) as tests:
        brokers = await_brokers(pytester, count)
        os.killpg(tests.pid, signal.SIGINT)
        told, _ = tests.communicate(timeout=HANGING_S)
        assert tests.returncode == pytest.ExitCode.INTERRUPTED, told
        assert "KeyboardInterrupt" in told
        assert "the broker died" not in told
        assert_gone(*brokers)


def test_a_kill_of_the_tests_leaves_no_broker(pytester: pytest.Pytester) -> None:
    with waiting_tests(pytester) as tests:
        brokers = await_brokers(pytester, 1)
        tests.kill()
        assert_gone(*brokers)


async def test_the_broker_is_already_running(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile(
        """
        import pytest

        def test_it(mocketmq):
            assert mocketmq.process is None
            mocketmq.send("orders", "x", delay_level=1)
            mocketmq.clock.next()
            assert mocketmq.receive("orders", group="g")

        @pytest.mark.mocketmq(clock="real")
        def test_another_clock(mocketmq):
            pass
        """
    )
    async with forked_broker("--clock", "manual") as broker:
        told = run("--mocketmq-url", broker.url)
        told.assert_outcomes(passed=1, errors=1)
        told.stdout.fnmatch_lines([f"the test needs clock real; the broker at {broker.url} has manual"])
        told = run("--mocketmq-url", broker.url, "-p", "xdist", "-n", "2")
        told.assert_outcomes(errors=2)
        told.stdout.fnmatch_lines(["*several workers would reset for each other*"])
    told = run("--mocketmq-url", broker.url)
    told.assert_outcomes(errors=2)
    told.stdout.fnmatch_lines([f"no broker answers at {broker.url}*"])


ELSEWHERE = """\
#!/bin/sh
# As a container: other files, a shell between, ports that are agreed on.
echo "pulling the image" >&2
cd / && exec 3<&- && "$@" --host 0.0.0.0
"""


def test_another_command(pytester: pytest.Pytester, run: Run) -> None:
    script = pytester.path / "elsewhere"
    script.write_text(ELSEWHERE)
    script.chmod(0o755)
    publish = "-p {http_port}:{http_port}"
    script.write_text(ELSEWHERE.replace('"$@"', 'shift 2; "$@"'))
    pytester.makeini(
        f"""
        [pytest]
        mocketmq_command = {script} {publish} {sys.executable} -m mocketmq
        mocketmq_options = --recall-levels --max-long-poll 2s
        mocketmq_topics = orders "bills"
        mocketmq_levels = 1s 2s
        """
    )
    pytester.makeconftest(SEEN)
    pytester.makepyfile(
        """
        def test_it(mocketmq, seen):
            assert max(door["port"] for door in mocketmq.doors.values()) < 32_768
            assert mocketmq.name_server.startswith("127.0.0.1:")
            assert {"orders", "bills"} <= {topic["name"] for topic in mocketmq.topics()}
            info = mocketmq.info()
            assert (info["levels"], info["max_long_poll_ms"]) == ("1s 2s", 2_000)
        """
    )
    run().assert_outcomes(passed=1)
    assert_gone(seen(pytester)[0]["pid"])


@pytest.mark.parametrize(
    ("setting", "lines"),
    [
        ("mocketmq_command = no-such-command", ["mocketmq_command cannot be run: *no-such-command*"]),
        (
            "mocketmq_clock = backwards",
            ["the broker did not start: it ended with exit code 2", "Error: --clock is 'backwards'*"],
        ),
        (
            "mocketmq_command = sleep\nmocketmq_start_timeout = 10ms",
            ["the broker was not ready in 0.01 s", "*", "(it wrote nothing)"],
        ),
    ],
)
def test_no_broker(pytester: pytest.Pytester, run: Run, setting: str, lines: list[str]) -> None:
    if setting.startswith("mocketmq_command = sleep"):  # sleep takes no options
        silent = pytester.path / "silent"
        silent.write_text("#!/bin/sh\nexec sleep 300\n")
        silent.chmod(0o755)
        setting = setting.replace("sleep", str(silent))
    pytester.makeini(f"[pytest]\n{setting}\n")
    pytester.makepyfile("def test_one(mocketmq): pass\ndef test_two(mocketmq): pass")
    told = run()
    told.assert_outcomes(errors=2)
    told.stdout.fnmatch_lines(lines)
    assert "Traceback" not in told.stdout.str()


def test_wrong_markers(pytester: pytest.Pytester, run: Run) -> None:
    markers = {
        "clok='real'": "the marker mocketmq does not accept clok; allowed: clock=…, profile=…, levels=…*",
        "'real'": "the marker mocketmq does not accept 'real'; allowed: *",
        "topics='orders'": "topics of the marker mocketmq is a text; allowed: a list of names",
        "topics=['a b']": "topic is 'a b'; allowed: *",
    }
    pytester.makepyfile(
        "import pytest\n"
        + "\n".join(
            f"@pytest.mark.mocketmq({marker})\ndef test_{number}(mocketmq): pass"
            for number, marker in enumerate(markers)
        )
    )
    told = run()
    told.assert_outcomes(errors=len(markers))
    told.stdout.fnmatch_lines(list(markers.values()))
    assert "Traceback" not in told.stdout.str()


NAMES = ("compat", "migrations", "emulator", "spark", "click", "yaml", "aiohttp", "typing_extensions")


def test_a_project_whose_names_are_ours(
    monkeypatch: pytest.MonkeyPatch, pytester: pytest.Pytester, run: Run
) -> None:
    """The project keeps its conftest.py and packages, and the broker does not import them."""
    monkeypatch.delenv("PYTHONPATH", raising=False)  # the broker keeps one that names mocketmq's folder
    for name in NAMES:
        package: Path = pytester.mkdir(name)
        (package / "__init__.py").write_text("OWNER = 'the project'\n")
    pytester.makeconftest(
        """
        import pytest

        @pytest.fixture
        def address(mocketmq):
            return mocketmq.name_server
        """
    )
    pytester.makepyfile(
        f"""
        import importlib, pytest

        @pytest.mark.parametrize("name", {NAMES})
        def test_it(mocketmq, address, name):
            assert importlib.import_module(name).OWNER == "the project"
            mocketmq.send("orders", address)
        """
    )
    run().assert_outcomes(passed=len(NAMES))


UNUSED = """
import sys

def pytest_unconfigure():
    print("modules:", *sorted(name for name in sys.modules if name.startswith("mocketmq")))
    print("threads:", __import__("threading").active_count())
"""


def test_projects_that_do_not_use_the_plugin_load_nothing(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makeconftest(UNUSED)
    pytester.makepyfile("def test(): pass\ndef test_fails(): assert 0")
    told = run("-s")
    told.assert_outcomes(passed=1, failed=1)
    told.stdout.fnmatch_lines(["modules: mocketmq mocketmq.testing mocketmq.testing.plugin", "threads: 1"])
    assert "-- mocketmq --" not in told.stdout.str()
