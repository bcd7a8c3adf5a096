"""Follows the README and the pages after it as a new user would, in one session of dependent steps.

The session runs in a separate network, where the ports of the pages are free. Its directory looks to ``make``
like a checkout with everything installed. Clients whose runtime this machine lacks are skipped by name.
"""

import os
import platform
import re
import shutil
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from mocketmq.settings_sources import load_settings
from tests.clients import node_sdk
from tests.clients.go.building import build as build_go
from tests.clients.java.building import build as build_java
from tests.clients.java.building import java_command, patient
from tests.support.network import inside, namespaces
from tests.support.process import clean_environment
from tests.support.readme import BLOCKS, ROOT, examples
from tests.support.terminal import Terminal, terminal

NETWORK = f"mocketmq-{os.getpid()}-reader"

QUICK = {"rocketmq-python", "rocketmq-python-crash", "ali-ons"}
"""Clients that ``make test`` runs; the others need Maven or Go."""
LATER = {"make", "path", "tools", "pip", "client", "kit-java", "kit-go", "kit-node", "kit-python"}
"""Slow kinds, which test_readme_installing.py and tests/kits/test_readme.py cover."""

CHANGES = re.compile(r"[0-9A-F]{32}|[0-9]{4}-\S+Z|queue [0-9]+")
"""Matches parts that vary between runs: message ids, instants, the next queue."""
BODIES = re.compile(r"order \d+ was not paid|sent by (?:\w+'s )?\w+")


def prepared_checkout(directory: Path) -> None:
    """Create a checkout as it is after ``make run`` and ``make setup-report``."""
    directory.mkdir()
    for name in ("Makefile", "pyproject.toml", "requirements.lock", "requirements-report.lock"):
        shutil.copyfile(ROOT / name, directory / name)
    (directory / ".venv").mkdir()
    (directory / ".venv" / "bin").symlink_to(Path(sys.executable).parent)
    for stamp in (".runtime", ".report"):
        (directory / ".venv" / stamp).touch()


class Reader:
    """Follows the pages, block by block; ``first`` and ``second`` are terminals."""

    def __init__(self, directory: Path, home: Path, first: Terminal, second: Terminal) -> None:
        self._directory = directory
        self._home = home
        self._first = first
        self._second = second
        self.received: set[str] = set()
        """Bodies of all messages that the second terminal has shown."""

    async def follow(self, kind: str, text: str) -> None:
        """Follow a block as a reader would."""
        act: Callable[[str], Any] = {
            "broker": self._start,
            "session": self._type,
            "python": self._test,
            "rocketmq-python-crash": self._test,
            "report": self._report,
            "config": self._configure,
            "rocketmq-python": lambda text: self._program(text, "orders.py", "python orders.py"),
            "aliyun": lambda text: self._program(text, "reminder.py", "python reminder.py"),
            "ali-ons": self._node,
            "rocketmq-java": lambda text: self._java(text, "java-4.9", "java-5.5"),
            "ons-java": lambda text: self._java(text, "ons-java"),
            "rocketmq-go": self._go,
        }[kind]
        await act(text)

    async def _start(self, text: str) -> None:
        self._first.start(text)
        while " is ready after " not in (line := await self._first.line()):
            assert "make" not in line, line

    async def _type(self, text: str) -> None:
        """Type the text after ``$``. Shown output must be printed; commands without output must succeed."""
        for command, _, shown in (part.partition("\n") for part in text.split("$ ")[1:]):
            ended = await self._second.run(command)
            if shown:
                assert _without_changes(ended.output) == _without_changes(shown.rstrip("\n")), command
            else:
                assert ended.code == 0, f"{command}\n{ended.output}"
            if " receive " in command or "/receive " in command:
                self.received.update(BODIES.findall(ended.output))

    async def _test(self, text: str) -> None:
        (self._directory / "test_orders.py").write_text(text)
        ended = await self._second.run("python -m pytest -q -p no:cacheprovider test_orders.py")
        assert (ended.code, "1 passed" in ended.output) == (0, True), ended.output

    async def _report(self, text: str) -> None:
        ended = await self._second.run(f"set -e\n{text}")
        assert ended.code == 0, ended.output
        assert (self._directory / "mocketmq-report" / "report.html").exists()

    async def _configure(self, text: str) -> None:
        file = self._directory / "mocketmq.toml"
        file.write_text(text)
        settings = load_settings({}, {}, file)
        assert [topic.name for topic in settings.topics] == ["orders"]
        assert [group.max_retries for group in settings.groups] == [3]

    async def _program(self, text: str, name: str, command: str) -> None:
        """Run a program that sends a message and prints the message id."""
        (self._directory / name).write_text(text)
        ended = await self._second.run(command)
        assert ended.code == 0, ended.output
        assert re.search(r"^[0-9A-Fa-f]{32,}$", ended.output, re.MULTILINE), ended.output

    async def _node(self, text: str) -> None:
        modules = node_sdk.FOLDER / "node_modules"
        await self._program(text, "orders.js", f"NODE_PATH={modules} node orders.js")

    async def _java(self, text: str, *clients: str) -> None:
        for client in clients:
            words = " ".join(f"'{word}'" for word in java_command(client, self._home))
            await self._program(patient(text), "Shop.java", f"{words} Shop.java")

    async def _go(self, text: str) -> None:
        (self._directory / "shop.go").write_text(text)
        build_go(self._directory / "shop.go", self._directory / "shop")
        await self._program(text, "shop.go", "./shop")


def _without_changes(text: str) -> list[str]:
    return [" ".join(CHANGES.sub("…", line).split()).replace("─", "") for line in text.splitlines()]


@asynccontextmanager
async def reading(tmp_path: Path) -> AsyncIterator[Reader]:
    """Run a reader with two terminals in a fresh checkout. Ctrl-C in the first ends the broker."""
    directory, home = tmp_path / "mocketmq", tmp_path / "home"
    prepared_checkout(directory)
    home.mkdir()
    environment = clean_environment() | {"HOME": str(home), "COLUMNS": "120"}
    environment.pop("MAKELEVEL", None)  # a nested make prints the directories it enters
    environment.pop("MAKEFLAGS", None)
    with namespaces(NETWORK):
        async with (
            terminal(directory, environment, inside(NETWORK)) as first,
            terminal(directory, environment, inside(NETWORK)) as second,
        ):
            yield Reader(directory, home, first, second)
            await first.interrupt()


def _needs_linux_on_x86() -> None:
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        pytest.skip("needs Linux on x86-64")


RUNTIMES: Mapping[str, Callable[[], None]] = {
    "rocketmq-python": _needs_linux_on_x86,
    "rocketmq-python-crash": _needs_linux_on_x86,
    "ali-ons": node_sdk.install,
    "rocketmq-java": build_java,
    "ons-java": build_java,
    "rocketmq-go": lambda: build_go(".", node_sdk.FOLDER.parent / "go" / "build" / "driver"),
}
"""Functions that build or install each client's requirements, and skip if that is impossible."""


def is_there(client: str, subtests: pytest.Subtests) -> bool:
    """Whether this machine has what a client needs; otherwise the client is reported as skipped."""
    with subtests.test(client):
        RUNTIMES[client]()
        return True
    return False


@pytest.mark.parametrize(
    "is_whole", [pytest.param(False, id="quick"), pytest.param(True, id="whole", marks=pytest.mark.interop)]
)
async def test_from_top_to_bottom(tmp_path: Path, subtests: pytest.Subtests, is_whole: bool) -> None:
    """The complete test with the Java and Go clients and the report needs Maven, Go and a minute."""
    slow = set() if is_whole else {"report", *RUNTIMES.keys() - QUICK}
    sent = set()
    async with reading(tmp_path) as reader:
        for kind, _, text in BLOCKS:
            if kind in LATER | slow or (kind in RUNTIMES and not is_there(kind, subtests)):
                continue
            await reader.follow(kind, text)
            if kind != "python":  # the Python program receives its own messages
                sent.update(BODIES.findall(text))
    assert sent
    assert sent <= reader.received


def test_every_code_block_is_marked_with_its_test() -> None:
    assert [block.text for block in BLOCKS if not block.kind] == []


def test_example_for_aliyun_is_the_tested_one() -> None:
    [example] = examples("aliyun")  # test_send_delay_message.py runs it
    program = Path(__file__).with_name("send_delay_message.py").read_text()
    assert program.endswith(f'"""\n\n{example}')
