"""Installs mocketmq in each way of docs/install.md and the README, from a fresh clone, with a package index.

It omits ``make test``, which runs this test; the container, which needs an engine; and the extra ``report``,
which downloads and builds Spark.
"""

import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from mocketmq import __version__
from tests.support.process import clean_environment
from tests.support.readme import ROOT, examples
from tests.support.terminal import Terminal, terminal

pytestmark = pytest.mark.slow

LEFT_OUT = re.compile(r"make test|docker|.*\[report\]")


def lines(kind: str) -> list[str]:
    """Return the commands of the only block of this kind."""
    [block] = examples(kind)
    return [line.partition("#")[0].strip() for line in block.splitlines() if not LEFT_OUT.match(line)]


@asynccontextmanager
async def opened(directory: Path) -> AsyncIterator[Terminal]:
    """Open a terminal there, in which brokers pick free ports; Ctrl-C ends its program on exit."""
    async with terminal(directory, clean_environment() | {"MOCKETMQ_PORT": "0"}) as shell:
        yield shell
        await shell.interrupt()


async def succeeds(shell: Terminal, command: str) -> str:
    ended = await shell.run(command)
    assert ended.code == 0, f"{command}\n{ended.output}"
    return ended.output


async def serves(directory: Path, command: str) -> None:
    async with opened(directory) as shell:
        shell.start(command)
        while " is ready after " not in (line := await shell.line()):
            assert "rror" not in line, line


async def test_from_a_fresh_clone(tmp_path: Path) -> None:
    clone, tools, application = tmp_path / "mocketmq", tmp_path / "tools", tmp_path / "application"
    async with opened(tmp_path) as shell:
        await succeeds(shell, f"git clone --quiet {ROOT} {clone}")
        for folder in (tools, application):
            await succeeds(shell, f"{sys.executable} -m venv {folder}")
        await succeeds(shell, f"{tools}/bin/pip install --quiet uv pipx")

    [run] = lines("make")
    await serves(clone, run)

    async with opened(clone) as shell:
        await succeeds(shell, "make dist")
        for install in lines("pip"):
            await succeeds(shell, f"{application}/bin/{install}")
            assert await succeeds(shell, f"{application}/bin/mocketmq --version") == (
                f"mocketmq {__version__}, not compiled"
            )
            await succeeds(shell, f"{application}/bin/pip uninstall --quiet --yes mocketmq mocketmq-client")
        before = await succeeds(shell, f"{application}/bin/pip freeze")
        [client] = lines("client")
        await succeeds(shell, f"{application}/bin/{client}")
        added = set((await succeeds(shell, f"{application}/bin/pip freeze")).splitlines()) - set(
            before.splitlines()
        )
        assert [line.partition(" ")[0] for line in added] == ["mocketmq-client"]

        await succeeds(shell, f"{application}/bin/pip install --quiet pytest")
        [example] = examples("kit-python")
        (tmp_path / "test_orders.py").write_text(example)
        for on_path in lines("path"):
            await succeeds(shell, on_path)
        told = await succeeds(shell, f"cd {tmp_path} && {application}/bin/pytest -q test_orders.py")
        assert "1 passed" in told

    for serve in lines("tools"):
        await serves(clone, f"PATH={tools}/bin:$PATH {serve}")
