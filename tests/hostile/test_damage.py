"""A damaged store is refused with a helpful error, or served until damage is found."""

import asyncio
import random
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import aiohttp
import pytest

from mocketmq import BrokerError, Client
from mocketmq.cli.exit_codes import Exit
from mocketmq.store.database import FILE_NAME
from tests.crash.faults import WITHOUT_ROOTS_RIGHTS
from tests.hostile.flooded import SEND, SEND_MESSAGE_V2
from tests.support.damage import flip_bits, zero_page_with, zero_some_page
from tests.support.grpc import grpc_client
from tests.support.process import BrokerProcess, StartError, broker_process, forked_broker
from tests.support.remoting import connected

MESSAGES: Final = 300
SEEDS: Final = range(8)
Damage = Callable[[Path, random.Random], None]


@pytest.fixture(params=["ended in order", "killed"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A data directory with messages in all states, most of them in the database and not in its log."""
    data = tmp_path / "whole"
    async with forked_broker("--data", str(data)) as broker, Client(broker.url) as client:
        for level in (0, 18):
            messages = [
                {"body": f"{n} " * 50, "message_id": f"m{level}-{n}", "delay_level": level, "keys": [f"k{n}"]}
                for n in range(MESSAGES // 2)
            ]
            await client.send_batch("orders", messages)
        taken = await client.receive("orders", group="billing", max_messages=30)
        await client.acknowledge("billing", taken[:10])
    if request.param == "killed":
        async with forked_broker("--data", str(data)) as broker, Client(broker.url) as client:
            await client.send("orders", "one more")
            broker.kill()
            await broker.wait()
    return data


async def use(broker: BrokerProcess) -> list[BrokerError]:
    """Browse, send, receive and move the clock, and return the errors."""
    errors: list[BrokerError] = []

    async def ask(request: Awaitable[Any]) -> None:
        try:
            await request
        except BrokerError as error:
            errors.append(error)

    async with Client(broker.url) as client:
        for number in range(0, MESSAGES // 2, 5):
            await ask(client.message(f"m0-{number}"))
            await ask(client.messages_by_key(f"k{number}"))
        for queue in range(4):
            await ask(client.browse("orders", queue, max_messages=256))
            await ask(client.send("orders", "new", queue_id=queue))
        for group in ("billing", "audit"):
            await ask(client.receive("orders", group=group, max_messages=32))
        for request in (client.topics(), client.groups(), client.delayed(), client.advance("3h")):
            await ask(request)
    return errors


def assert_refused_in_words(refusal: StartError, data: Path) -> None:
    said = refusal.stderr
    assert refusal.returncode == Exit.NOT_STARTED, said
    assert (
        f"{data / FILE_NAME} is damaged" in said or f"{data / FILE_NAME} cannot be read as a database" in said
    )
    assert (
        "Restore it from a copy, move it away to start empty, or give another directory with --data" in said
    )
    assert "Traceback" not in said
    assert "request" not in said.replace("request_modes", "")  # request_modes is a table


@pytest.mark.parametrize("damage", [flip_bits, zero_some_page])
async def test_a_damaged_store_is_refused_or_served(store: Path, damage: Damage) -> None:
    refused = 0
    for seed in SEEDS:
        data = store.with_name(f"damaged-{seed}")
        shutil.copytree(store, data)
        damage(data / FILE_NAME, random.Random(f"{damage.__name__} {seed}"))
        try:
            async with forked_broker("--data", str(data), "--clock", "manual") as broker:
                errors = await use(broker)
                broker.terminate()
                assert await broker.wait() == Exit.DONE
        except StartError as refusal:
            assert_refused_in_words(refusal, data)
            refused += 1
            continue
        assert {error.title for error in errors} <= {"Store damaged"}, (
            seed,
            [str(error) for error in errors],
        )
        assert broker.stderr.count("CRITICAL") == bool(errors), broker.stderr
        assert "Traceback" not in broker.stderr, (seed, broker.stderr)
    assert refused > len(SEEDS) / 4  # the other pages hold nothing that a start reads


async def test_damage_is_answered_at_every_door_and_logged_once(tmp_path: Path) -> None:
    async with forked_broker("--data", str(tmp_path)) as broker, Client(broker.url) as client:
        for number in range(200):
            await client.send("orders", f"needle {number} " + "x" * 1_000, queue_id=0)
    zero_page_with(tmp_path / FILE_NAME, b"needle 100 ")
    async with forked_broker("--data", str(tmp_path)) as broker, Client(broker.url) as client:
        with pytest.raises(BrokerError) as refused:
            await client.browse("orders", 0, max_messages=256)
        assert (refused.value.status, refused.value.title) == (500, "Store damaged")
        assert f"mocketmq verify --data {tmp_path}" in refused.value.detail
        with pytest.raises(BrokerError) as refused:
            await client.send("orders", "more")
        assert (refused.value.status, refused.value.title) == (500, "Store damaged")
        assert "nothing of this request was kept" in refused.value.detail
        with pytest.raises(BrokerError, match="is damaged"):
            await client.ready()
        async with connected(broker.name_server[0], broker.broker_port) as remoting:
            answer = await remoting.call(SEND_MESSAGE_V2, SEND, b"more")
            assert answer.code == 1  # SYSTEM_ERROR
            assert "is damaged" in (answer.remark or "")
        message = b"<Message><MessageBody>more</MessageBody></Message>"
        async with (
            aiohttp.ClientSession(broker.url) as session,
            session.post("/topics/orders/messages", data=message) as aliyun,
        ):
            said = await aliyun.text()
            assert (aliyun.status, "<Code>InternalError</Code>" in said) == (500, True), said
            assert "is damaged" in said
        async with grpc_client(int(broker.grpc.rpartition(":")[2])) as grpc:
            status = (await grpc.send(grpc.message("more"))).status
            assert status.code == 50_001  # INTERNAL_SERVER_ERROR
            assert "is damaged" in status.message
    assert broker.stderr.count("is damaged") == 1
    assert "CRITICAL" in broker.stderr
    assert "Traceback" not in broker.stderr
    with pytest.raises(StartError) as refusal:  # although the run that found the damage ended in order
        async with forked_broker("--data", str(tmp_path)):
            pass
    assert_refused_in_words(refusal.value, tmp_path)


def make_folder(database: Path) -> None:
    database.unlink()
    database.mkdir()


def lock_up(database: Path) -> None:
    database.chmod(0o400)


FILES = {
    "a folder": (make_folder, "it is a directory; allowed: a database file"),
    "not for us to write": (lock_up, "Permission denied"),
}


@pytest.mark.parametrize("kind", FILES)
async def test_an_unusable_file_is_reported_without_a_stack_trace(tmp_path: Path, kind: str) -> None:
    spoil, sentence = FILES[kind]
    async with forked_broker("--data", str(tmp_path)):
        pass
    spoil(tmp_path / FILE_NAME)

    async def refusal() -> StartError:
        with pytest.raises(StartError) as refused:
            async with broker_process("--data", str(tmp_path), wrapper=WITHOUT_ROOTS_RIGHTS):
                pass
        return refused.value

    for each in await asyncio.gather(refusal(), refusal()):
        assert each.returncode == Exit.NOT_STARTED
        assert each.stderr.splitlines()[-1].startswith("Error: ")
    alone = await refusal()
    assert f"cannot open {tmp_path / FILE_NAME}: {sentence}" in alone.stderr
    assert alone.stderr.count("\n") == 1
