"""The commands of docs/probe.md work in order, with other addresses and fewer messages."""

import asyncio
import re
import sys
from asyncio.subprocess import DEVNULL, PIPE, STDOUT
from pathlib import Path

import pytest

from mocketmq import Client
from tests.support.patience import HANGING_S
from tests.support.process import clean_environment, forked_broker

pytestmark = pytest.mark.slow

PAGE = (Path(__file__).parents[2] / "docs" / "probe.md").read_text()


async def typed(line: str, folder: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", *line.split()),
        cwd=folder,
        env=clean_environment(),
        stdin=DEVNULL,
        stdout=PIPE,
        stderr=STDOUT,
    )
    async with asyncio.timeout(HANGING_S):
        said, _ = await process.communicate()
    assert process.returncode == 0, said.decode()


async def test_commands_of_the_page_run(tmp_path: Path) -> None:
    probe, report, serve, compare = re.findall(r"^```sh\n(.*?)\n```$", PAGE, re.DOTALL | re.MULTILINE)
    async with forked_broker() as cluster:
        host, port = cluster.name_server
        probe = probe.replace("10.0.0.5:9876", f"{host}:{port}").replace("--levels 1,2,3", "--levels 1,2")
        await typed(probe.replace("--count 500", "--count 5"), tmp_path)
    await typed(report, tmp_path)
    _, _, *options = serve.replace("cluster.csv", str(tmp_path / "cluster.csv")).split()
    data = tmp_path / "mocketmq-data"
    async with forked_broker(*options, "--data", str(data)) as played, Client(played.url) as client:
        for level in (1, 2):
            for _ in range(5):
                await client.send("orders", "hello", delay_level=level)
        await client.advance("1h")
    await typed(compare, tmp_path)
    assert (tmp_path / "mocketmq-report" / "report.json").exists()
