"""Requests of one connection about one group take effect in the order of sending."""

import asyncio
import itertools
from collections.abc import Mapping

import pytest

from mocketmq.remoting.wire.command import Command
from tests.doors.remoting.consuming import QUERY_OFFSET, RESET_OFFSET, UPDATE_OFFSET, commit, committed, place
from tests.doors.remoting.popping import (
    ACK,
    BATCH_ACK,
    CHANGE,
    NOTIFICATION,
    POP,
    batch_of,
    fill,
    messages,
    pop,
    pop_of,
    settling,
)
from tests.support.brokers import GROUP, TOPIC, index_keys
from tests.support.held_up import HeldUp
from tests.support.patience import PATIENCE_S
from tests.support.remoting import RemotingClient, running_remoting

_opaques = itertools.count(1_000_000)


def pipelined(
    client: RemotingClient, *requests: tuple[int, Mapping[str, str]], body: bytes = b""
) -> list[asyncio.Future[Command]]:
    """Send requests in one write, and return the answers; ``body`` belongs to the first request."""
    commands = [
        Command(code=code, opaque=next(_opaques), ext=ext, body=b"" if n else body)
        for n, (code, ext) in enumerate(requests)
    ]
    answers = [client.expect(command.opaque) for command in commands]
    client.send(*commands)
    return answers


def reset_to(offset: int) -> tuple[int, Mapping[str, str]]:
    """Return a reset of queue 0 to the time of its first message, or to an offset."""
    ext = {"topic": TOPIC, "group": GROUP, "timestamp": "0", "isForce": "true"}
    return RESET_OFFSET, ext | ({"queueId": "0", "offset": str(offset)} if offset else {})


QUERY = (QUERY_OFFSET, place())


@pytest.mark.parametrize("batch", [False, True])
async def test_a_pop_in_order_sees_the_acknowledgements_before_it(
    batch: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_remoting() as remoting:
        await fill(remoting, "1", "2", "3")
        handles = [one.handle for one in await pop(remoting.client, order=True, maxMsgNums=2)]
        acks = [(BATCH_ACK, {})] if batch else [(ACK, settling(handle, {})) for handle in handles]
        with HeldUp(remoting.broker, monkeypatch) as disk:
            *acked, waiting, popped, offset = pipelined(
                remoting.client,
                *acks,
                (NOTIFICATION, pop_of(order=True)),
                (POP, pop_of(order=True)),
                QUERY,
                body=batch_of(handles) if batch else b"",
            )
            await disk.begun()
            disk.go.set()
            assert [(await answer).code for answer in acked] == [0] * len(acks)
            assert (await waiting).ext["hasMsg"] == "true"
            assert [one.body for one in messages(await popped)] == ["3"]
            assert (await offset).ext["offset"] == "2"


async def test_a_pop_in_order_sees_the_end_of_an_invisible_time_before_it() -> None:
    async with running_remoting() as remoting:
        await fill(remoting, "1", "2")
        first = await pop(remoting.client, order=True, maxMsgNums=1)
        given = settling(first[0].handle, {"invisibleTime": 0})
        changed, popped = pipelined(remoting.client, (CHANGE, given), (POP, pop_of(2_000, order=True)))
        assert (await changed).code == 0
        assert [one.body for one in messages(await popped)] == ["1", "2"]


async def test_acknowledgements_do_not_wait_for_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_remoting() as remoting:
        await fill(remoting, *map(str, range(20)))
        acks = [(ACK, settling(one.handle, {})) for one in await pop(remoting.client)]
        await index_keys(remoting.broker)
        commits = remoting.broker.store.writer.commits
        with HeldUp(remoting.broker, monkeypatch) as disk:
            answers = pipelined(remoting.client, *acks)
            await disk.begun()
            disk.go.set()
            assert [(await answer).code for answer in answers] == [0] * 20
        assert remoting.broker.store.writer.commits <= commits + 2


@pytest.mark.parametrize("offset", [0, 2])
async def test_requests_after_a_reset_wait_for_it(offset: int) -> None:
    async with running_remoting() as remoting:
        await fill(remoting, *map(str, range(10)))
        await commit(remoting.client, 4)
        taken = await pop(remoting.client)
        answers = pipelined(
            remoting.client,
            reset_to(offset),
            QUERY,
            (UPDATE_OFFSET, place(commitOffset=9)),
            QUERY,
            (ACK, settling(taken[0].handle, {})),
            (POP, pop_of()),
        )
        reset, asked, ignored, again, spent, popped = [await answer for answer in answers]
        assert (reset.code, asked.ext["offset"], again.ext["offset"]) == (0, str(offset), str(offset))
        assert ignored.remark == "Offset has been previously reset"
        assert spent.code == 208
        assert [one.body for one in messages(popped)] == [str(n) for n in range(offset, 10)]


async def test_a_reset_comes_after_the_acknowledgement_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_remoting() as remoting:
        await fill(remoting, "0", "1", "2")
        first = await pop(remoting.client)
        with HeldUp(remoting.broker, monkeypatch) as disk:
            acked, reset = pipelined(remoting.client, (ACK, settling(first[0].handle, {})), reset_to(1))
            await disk.begun()
            disk.go.set()
            assert ((await acked).code, (await reset).code) == (0, 0)
        assert await committed(remoting.client) == 1


async def test_other_requests_do_not_wait_and_disconnected_clients_block_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running_remoting() as remoting, remoting.another() as other:
        await fill(remoting, "1", "2", "3")
        first, *rest = [one.handle for one in await pop(other, order=True, maxMsgNums=2)]
        with HeldUp(remoting.broker, monkeypatch) as disk:
            pipelined(
                other,
                (ACK, settling(first, {})),
                (POP, pop_of(20_000, order=True)),
                *((ACK, settling(handle, {})) for handle in rest),
            )
            await disk.begun()
            assert await committed(remoting.client) == 0
            await other.close()
        async with asyncio.timeout(PATIENCE_S):
            while await committed(remoting.client) != 2:  # noqa: ASYNC110
                await asyncio.sleep(0)
        assert [one.body for one in await pop(remoting.client, order=True)] == ["3"]
