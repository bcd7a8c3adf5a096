"""A producer that waits for each response gets the same promise as others.

The event loop commits and syncs its messages itself, unless the disk is slow.
"""

import itertools
import signal
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from mocketmq import Client
from mocketmq.failpoint import ENVIRONMENT
from mocketmq.remoting.wire.codes import RequestCode, ResponseCode
from tests.crash.faults import TOPIC, delivered
from tests.crash.power import NOTES, cut
from tests.crash.test_kill import SEED, show_seed
from tests.support.process import forked_broker
from tests.support.remoting import ClosedError, RemotingClient, connected

__all__ = ["show_seed"]

OPTIONS = ("--topic-queues", "1", "--clock", "manual")
POINTS = ("writer.committed:30", "log.syncing:30", "log.synced:30")
CUTS = 8


async def send(client: RemotingClient, number: int) -> str:
    """Send a message. Returns the remark of a refusal, and nothing if the message was acknowledged."""
    ext = {"a": "producers", "b": TOPIC, "c": "TBW102", "d": "1", "e": "0", "f": "0", "g": "1715900000000"}
    ext |= {"h": "0", "i": f"UNIQ_KEY\x01{number}\x02", "j": "0", "k": "false", "m": "false"}
    answer = await client.call(RequestCode.SEND_MESSAGE_V2, ext, b"hello")
    return "" if answer.code == ResponseCode.SUCCESS else str(answer.remark)


async def send_until_killed(data: Path, failpoint: str, notes: Path) -> list[str]:
    """Send one message after the other until the broker dies. Returns the ids of acknowledged messages."""
    kept: list[str] = []
    environment = {ENVIRONMENT: failpoint, NOTES: str(notes)}
    async with (
        forked_broker("--data", str(data), *OPTIONS, env=environment) as process,
        connected("127.0.0.1", process.broker_port) as client,
    ):
        with suppress(ClosedError):
            for number in itertools.count():
                assert not await send(client, number)
                kept.append(str(number))
        assert await process.wait() == -signal.SIGKILL, process.stderr
    return kept


async def found(data: Path) -> list[str]:
    async with forked_broker("--data", str(data), *OPTIONS) as process, Client(process.url) as client:
        return await delivered(client)


@pytest.mark.parametrize("point", POINTS)
async def test_acknowledged_messages_survive_a_kill_and_a_power_cut(tmp_path: Path, point: str) -> None:
    data, notes = tmp_path / "data", tmp_path / "syncs"
    kept = await send_until_killed(data, point, notes)
    random = Random(f"{SEED} {point}")
    for number in range(CUTS):
        twin = tmp_path / f"cut{number}"
        print(cut(data, notes, twin, random))  # noqa: T201 - pytest shows it with a failure
        assert (await found(twin))[: len(kept)] == kept
    assert await found(data) == [*kept, str(len(kept))]


async def test_a_failed_sync_refuses_a_message(tmp_path: Path) -> None:
    environment = {ENVIRONMENT: "log.syncing:30=EIO"}
    kept: list[str] = []
    async with forked_broker("--data", str(tmp_path), *OPTIONS, env=environment) as process:
        async with connected("127.0.0.1", process.broker_port) as client:
            while not (remark := await send(client, len(kept))):
                kept.append(str(len(kept)))
            assert "a sync of the disk failed (Input/output error); a restart shows whether" in remark
            assert "nothing more is written until the broker is restarted" in await send(client, 99)
        process.terminate()
        await process.wait()
    assert process.stderr.count("a sync of the disk failed (Input/output error)") == 1
    assert (await found(tmp_path))[: len(kept)] == kept
