"""Data directories of the previous version open as before."""

from pathlib import Path

from mocketmq import Client, Settings, running_emulator
from tests.support.version_before import unpack


async def test_store_of_the_previous_version_opens(tmp_path: Path) -> None:
    store = unpack("store", tmp_path)
    settings = Settings(data=str(store), clock="manual", retain_age_us=0, http_port=0, remoting=False)
    async with running_emulator(settings) as emulator, Client(emulator.url) as broker:
        assert (await broker.info())["run"] == 2
        pending = (await broker.delayed())["messages"]
        assert [message["body"] for message in pending] == ["by level", "by time"]
        [half] = (await broker.transactions())["messages"]
        assert (await broker.group("shop"))["max_retries"] == 3

        await broker.commit(half["message_id"])
        assert (await broker.advance("30m"))["fired"] == 1
        assert (await broker.advance("1h"))["fired"] == 1
        received = await broker.receive("orders", group="shop", max_messages=32)
        assert sorted(message["body"] for message in received) == sorted(
            ["by level", "by time", "half", *(f"delivered {n}" for n in range(2, 20))]
        )
        [timed] = await broker.messages_by_key("old-timed")
        assert (timed["tag"], timed["properties"]["region"]) == ("timed", "eu")
