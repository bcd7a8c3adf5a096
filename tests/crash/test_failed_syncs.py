"""A failed disk sync: work waiting for it is not acknowledged, and writing ends."""

import errno
from pathlib import Path

import pytest

from mocketmq import BrokerError, Client
from mocketmq.errors import StoreFailedError
from mocketmq.failpoint import ENVIRONMENT
from tests.crash.delayed import HOUR_US, come, keep, timed_of
from tests.crash.faults import GROUP, TOPIC, delivered, send
from tests.support.brokers import running_broker, visible
from tests.support.process import forked_broker

WAITED = "a restart shows whether this request was kept"
LATER = "nothing more is written until the broker is restarted"
MANY = 50


def assert_failed(error: BrokerError, sentence: str) -> None:
    assert (error.status, error.title) == (503, "Store failed"), error
    assert sentence in error.detail


def delayed_messages(data: Path) -> int:
    return len(list((data / "delay").rglob("*.msg")))


@pytest.mark.parametrize("point", ["log.syncing", "log.synced"])
async def test_a_failed_sync_stops_all_writing(tmp_path: Path, point: str) -> None:
    options = ("--data", str(tmp_path), "--topic-queues", "1", "--clock", "manual")
    async with (
        forked_broker(*options, env={ENVIRONMENT: f"{point}:12=EIO"}) as process,
        Client(process.url) as client,
    ):
        promised: list[str] = []
        await send(client, "taken")
        [taken] = await client.receive(TOPIC, group=GROUP)
        with pytest.raises(BrokerError) as error:
            for number in range(MANY):
                await send(client, f"m{number}")
                promised.append(f"m{number}")
        assert_failed(error.value, WAITED)
        assert "Input/output error" in error.value.detail
        assert "nothing of this request was kept" not in error.value.detail
        for request in (
            send(client, "later"),
            client.acknowledge(GROUP, [taken]),
            client.put_group("another"),
            client.advance("1s"),
        ):
            with pytest.raises(BrokerError) as error:
                await request
            assert_failed(error.value, LATER)
        assert (await delivered(client))[: len(promised) + 1] == ["taken", *promised]
        process.terminate()
        await process.wait()
    assert process.stderr.count("a sync of the disk failed (Input/output error)") == 1
    async with forked_broker(*options) as process, Client(process.url) as client:
        doubtful = f"m{len(promised)}"
        assert await delivered(client) in (["taken", *promised], ["taken", *promised, doubtful])
        await send(client, "after")
        assert (await client.acknowledge(GROUP, [taken]))["settled"] == [taken["receipt"]]


async def test_a_file_stays_until_its_delivery_is_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_broker(tmp_path) as broker:
        await keep(broker, "a", 1_000)
        with monkeypatch.context() as broken:

            def fail() -> None:
                raise OSError(errno.EIO, "Input/output error")

            broken.setattr(broker.store.writer._syncs, "_sync", fail)
            with pytest.raises(StoreFailedError):
                await broker.mover.advance(HOUR_US)
        assert [message.unique_key for message in await visible(broker)] == ["a"]
        await timed_of(broker).tidy()
        assert delayed_messages(tmp_path) == 1
    async with running_broker(tmp_path) as broker:
        assert await come(broker, HOUR_US) == ["a"]
        assert timed_of(broker).repeats == 1
    assert delayed_messages(tmp_path) == 0
