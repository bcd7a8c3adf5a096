"""The broker on systems that lack features of Linux, as far as Linux can simulate them."""

import sys
from pathlib import Path

import pytest

from mocketmq import Client
from tests.support.process import StartError, broker_process

pytestmark = pytest.mark.parametrize("system", ["windows", "macos"])


def on(system: str) -> list[str]:
    """Return the command for ``mocketmq`` on that system."""
    return [sys.executable, "-m", "tests.support.other_system", system]


async def test_delayed_messages_outlive_a_restart(system: str, tmp_path: Path) -> None:
    settings = ("--data", str(tmp_path / "data"), "--clock", "manual")
    async with broker_process(*settings, program=on(system)) as process, Client(process.url) as client:
        await client.send("orders", "level", delay_level=16)
        for body in ("cancelled", "timed"):
            sent = await client.send("orders", body, delay_ms=1_800_000)
            if body == "cancelled":
                await client.cancel(sent["message_id"])
        with pytest.raises(StartError, match="is in use by the process with pid"):
            async with broker_process(*settings, program=on(system)):
                pass
        process.terminate()
        assert await process.wait() == 0, process.stderr
    async with broker_process(*settings, program=on(system)) as process, Client(process.url) as client:
        await client.advance("30m")
        received = await client.receive("orders", group="billing", max_messages=10)
        assert {message["body"] for message in received} == {"level", "timed"}
        process.terminate()
        assert await process.wait() == 0, process.stderr
        assert "Traceback" not in process.stderr


async def test_windows_refuses_schemes_that_it_cannot_keep_on_disk(system: str, tmp_path: Path) -> None:
    for data in (":memory:", str(tmp_path)):
        settings = ("--data", data, "--timed-scheme", "slots")
        if system == "windows" and data != ":memory:":
            with pytest.raises(StartError, match="directories on Windows"):
                async with broker_process(*settings, program=on(system)):
                    pass
        else:
            async with broker_process(*settings, program=on(system)) as process:
                assert process.url
