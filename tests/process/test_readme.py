"""The README's examples, run as a reader would run them."""

import asyncio
import json
import os
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from mocketmq.settings import load_settings
from tests.support.process import broker_process
from tests.support.readme import README, examples

_ADDRESS = "http://127.0.0.1:9877"


async def run(command: str, url: str, where: Path | None = None) -> str:
    """The output of a command line of the README, against the broker at ``url``, called in a directory."""
    words = shlex.split(command.replace(_ADDRESS, url))
    if words[0] == "mocketmq":
        words = [sys.executable, "-m", "mocketmq", *words[1:]]
    process = await asyncio.create_subprocess_exec(
        *words, stdout=asyncio.subprocess.PIPE, env=os.environ | {"MOCKETMQ_URL": url}, cwd=where
    )
    output, _ = await process.communicate()
    assert process.returncode == 0, command
    return output.decode()


async def test_the_first_delayed_message() -> None:
    answers: list[Any] = []
    async with broker_process("--clock", "manual") as broker:
        for example in examples("session"):
            for line in example.splitlines():
                if line.startswith("$ "):
                    answers.append(json.loads(await run(line[2:], broker.url)))
                else:
                    assert answers[-1] == json.loads(line)
    assert [message["body"] for message in answers[-1]["messages"]] == ["order 4711 was not paid"]


async def test_the_command_line() -> None:
    async with broker_process("--clock", "manual") as broker:
        [example] = examples("commands")
        outputs = [await run(line, broker.url) for line in example.splitlines()]
    assert "order 4712 was not paid" in outputs[-1]


async def test_the_python_client() -> None:
    names: dict[str, Any] = {}
    [example] = examples("python")
    exec(compile(example, "README.md", "exec"), names)  # noqa: S102 - the README's own text
    async with broker_process("--clock", "manual") as broker:
        await names["order_is_cancelled_when_not_paid"](broker.url)


def test_the_example_for_aliyun_is_the_one_that_is_run() -> None:
    [example] = examples("aliyun")  # by tests/clients
    program = (Path(__file__).parents[1] / "clients" / "send_delay_message.py").read_text()
    assert program.endswith(f'"""\n\n{example}')


def test_the_config_file(tmp_path: Path) -> None:
    file = tmp_path / "mocketmq.toml"
    [example] = examples("config")
    file.write_text(example)
    settings = load_settings({}, {}, file)
    assert [topic.name for topic in settings.topics] == ["orders"]
    assert [group.max_retries for group in settings.groups] == [3]


@pytest.mark.parametrize("link", re.findall(r"\]\((?!http)([^)#]+)", README))
def test_links_lead_somewhere(link: str) -> None:
    assert (Path(__file__).parents[2] / link).exists()
