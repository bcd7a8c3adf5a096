"""A commit takes effect before the client's next request, even if the disk is busy."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from mocketmq import Client
from mocketmq.broker.consuming import selection
from mocketmq.remoting.wire.command import Command
from mocketmq.store.messages import fitting_messages_in
from tests.doors.remoting.consuming import (
    COMMIT,
    MEMBERS_CHANGED,
    QUERY_OFFSET,
    SUBSCRIPTION,
    UNREGISTER,
    UPDATE_OFFSET,
    commit,
    committed,
    join,
    place,
    pull,
)
from tests.support.brokers import GROUP, TOPIC, Refusing, bodies, receive, rows, send
from tests.support.held_up import HeldUp
from tests.support.remoting import Remoting, RemotingClient, running_remoting

TRIES = 40
PROGRESS = 208


async def fill(remoting: Remoting, count: int = 10) -> None:
    """Send ``count`` messages to queue 0."""
    for n in range(count):
        await send(remoting.broker, str(n), queue=0)


def pipelined(client: RemotingClient, offsets: Sequence[int], **more: Any) -> list[asyncio.Future[Command]]:
    """Alternate commits and queries in one write, and return the answers to the queries."""
    questions, answers = [], []
    for n, offset in enumerate(offsets):
        answers.append(client.expect(1_000_000 + n))
        questions += [
            Command.oneway(UPDATE_OFFSET, 2_000_000 + n, place(commitOffset=offset, **more)),
            Command.request(QUERY_OFFSET, 1_000_000 + n, place(**more)),
        ]
    client.send(*questions)
    return answers


@pytest.mark.parametrize("is_new", [True, False], ids=["new", "known"])
async def test_each_query_sees_the_commit_before_it(is_new: bool) -> None:
    async with running_remoting() as remoting:
        await fill(remoting, TRIES)
        if not is_new:
            await commit(remoting.client, 0)
        offsets = [*range(1, TRIES), *range(TRIES, 0, -1)]
        answers = pipelined(remoting.client, offsets)
        assert [int((await answer).ext["offset"]) for answer in answers] == offsets
        await commit(remoting.client, 1)  # its answer means that all earlier commits are durable
        assert remoting.broker.committed_offsets.of(GROUP, TOPIC, 0) == 1


@pytest.mark.parametrize("is_new", [True, False], ids=["new", "known"])
async def test_committed_offset_is_visible_before_its_sync(
    is_new: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_remoting() as remoting:
        await fill(remoting)
        if not is_new:
            await commit(remoting.client, 1)
        with HeldUp(remoting.broker, monkeypatch):
            remoting.client.oneway(UPDATE_OFFSET, place(commitOffset=3))
            assert await committed(remoting.client) == 3
            stats = await remoting.client.ok(PROGRESS, {"consumerGroup": GROUP, "topic": TOPIC})
            assert b'"consumerOffset":3' in stats.body
            if not is_new:
                async with Client(remoting.emulator.url) as control:
                    assert (await control.group(GROUP))["queues"][0]["committed_offset"] == 3


async def test_an_offset_committed_by_a_pull_is_visible(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_remoting() as remoting:
        await fill(remoting)
        await commit(remoting.client, 1)
        with HeldUp(remoting.broker, monkeypatch):
            await pull(remoting.client, 4, COMMIT | SUBSCRIPTION, commitOffset=4)
            assert await committed(remoting.client) == 4


async def test_next_member_starts_at_the_last_commit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running_remoting() as remoting, remoting.another() as other:
        await fill(remoting)
        await join(remoting.client, "one")
        await join(other, "two")
        await remoting.client.push()
        await commit(remoting.client, 1)
        with HeldUp(remoting.broker, monkeypatch):
            remoting.client.send(
                Command.oneway(UPDATE_OFFSET, 1, place(commitOffset=8)),
                Command.oneway(UNREGISTER, 2, {"clientID": "one", "consumerGroup": GROUP}),
            )
            assert (await other.push()).code == MEMBERS_CHANGED
            assert await committed(other) == 8


@pytest.mark.interpreted
@pytest.mark.parametrize(
    ("offset", "given"), [(7, ["7", "8", "9"]), (2, ["2", "3", "4", "5", "6", "7", "8", "9"])]
)
async def test_a_receive_in_progress_respects_an_offset_committed_meanwhile(
    offset: int, given: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    looked, go = asyncio.Event(), asyncio.Event()

    async def slowly(*args: Any, **more: Any) -> Any:
        found = await fitting_messages_in(*args, **more)
        looked.set()
        await go.wait()
        return found

    async with running_remoting() as remoting:
        await fill(remoting)
        await commit(remoting.client, 5)
        monkeypatch.setattr(selection, "fitting_messages_in", slowly)
        receiver = asyncio.create_task(receive(remoting.broker))
        await looked.wait()
        remoting.client.oneway(UPDATE_OFFSET, place(commitOffset=offset))
        assert await committed(remoting.client) == offset
        go.set()
        assert bodies(await receiver) == given


async def test_failed_offset_commit_is_stored_with_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_remoting(data=str(tmp_path)) as remoting:
        await fill(remoting)
        await commit(remoting.client, 2)
        async with Refusing(remoting.broker, monkeypatch):
            answer = await remoting.client.call(UPDATE_OFFSET, place(commitOffset=6))
            assert (answer.code, answer.remark) == (14, "no")
        assert await committed(remoting.client) == 6
        assert [row["next_offset"] for row in rows(tmp_path, "SELECT * FROM progress")] == [2]
        await commit(remoting.client, 6)
        assert [row["next_offset"] for row in rows(tmp_path, "SELECT * FROM progress")] == [6]


async def test_restart_after_a_refused_reset_repeats_no_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_remoting(data=str(tmp_path)) as remoting:
        await fill(remoting)
        assert len(await receive(remoting.broker)) == 10
        async with Refusing(remoting.broker, monkeypatch):
            ext = {"topic": TOPIC, "group": GROUP, "timestamp": "0", "isForce": "true"}
            assert (await remoting.client.call(222, ext)).code == 14
        assert bodies(await receive(remoting.broker, 3)) == ["0", "1", "2"]
    async with running_remoting(data=str(tmp_path)) as remoting:
        assert bodies(await receive(remoting.broker)) == [str(n) for n in range(3, 10)]
        assert await receive(remoting.broker) == []
