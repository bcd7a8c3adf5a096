"""Limits on requests in flight, unread answers, waiting pulls, and memory."""

import asyncio
from collections.abc import Sequence
from typing import cast

import pytest

from mocketmq.remoting.call import Response
from mocketmq.remoting.listening import server
from mocketmq.remoting.listening.connection import RemotingConnection
from mocketmq.remoting.listening.requests_in_progress import ConnectionLimits
from mocketmq.remoting.wire.codes import RequestCode
from mocketmq.remoting.wire.command import Command
from mocketmq.remoting.wire.frame import encode
from tests.doors.remoting.gates import ROUTE, Gate, Unread, looked_after_by_hand, serve_by, until
from tests.support.remoting import Remoting


def memory_of(commands: Sequence[Command]) -> int:
    """The memory of these requests as the server estimates it."""
    return sum(1_024 + len(encode(command)) for command in commands)


async def test_reading_pauses_while_many_requests_are_in_progress(
    remoting: Remoting, monkeypatch: pytest.MonkeyPatch
) -> None:
    remoting.server.hub.limits = ConnectionLimits(running=10)
    gate = Gate(remoting, monkeypatch)
    gate.let_go("TBW102")
    async with remoting.another() as other:
        commands = [Command(code=105, opaque=1_000 + n, ext={"topic": f"t{n}"}) for n in range(10)]
        first = [remoting.client.expect(command.opaque) for command in commands]
        remoting.client.send(*commands)
        await until(lambda: len(gate.started) == 10)
        late = remoting.client.ask(105, ROUTE)
        for _ in range(20):
            await other.ok(105, ROUTE)
        assert not late.done()
        assert remoting.server.held_bytes == memory_of(commands)
        gate.let_go("t0")
        await asyncio.gather(first[0], late)
        for n in range(1, 10):
            gate.let_go(f"t{n}")
        await asyncio.gather(*first)
        await until(lambda: remoting.server.held_bytes == 0)


async def test_reading_pauses_while_large_requests_are_in_progress(
    remoting: Remoting, monkeypatch: pytest.MonkeyPatch
) -> None:
    remoting.server.hub.limits = ConnectionLimits(running_bytes=1 << 20)
    gate = Gate(remoting, monkeypatch)
    first = remoting.client.ask(105, {"topic": "large"}, bytes(2 << 20))
    await until(lambda: gate.started == ["large"])
    late = remoting.client.ask(105, ROUTE)
    async with remoting.another() as other:
        for _ in range(20):
            assert (await other.call(9_999)).code == 3
    assert gate.started == ["large"]
    for topic in ("large", "TBW102"):
        gate.let_go(topic)
    await asyncio.gather(first, late)


async def test_reading_pauses_while_answers_are_unread(
    remoting: Remoting, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = []

    async def large(_: object) -> Response:
        started.append(True)
        return Response(body=bytes(8 << 20))

    serve_by(large, remoting, monkeypatch)
    client = remoting.client
    client.pause_reading()
    async with remoting.another() as other:
        answers = [client.ask(105, ROUTE)]
        await until(lambda: remoting.server.unread_bytes)
        answers.append(client.ask(105, ROUTE))
        for _ in range(20):
            assert (await other.call(9_999)).code == 3
        assert len(started) == 1
    client.resume_reading()
    assert [len(answer.body) for answer in await asyncio.gather(*answers)] == [8 << 20, 8 << 20]
    assert len(started) == 2
    await until(lambda: not remoting.server.unread_bytes)


@pytest.mark.parametrize(
    ("own_mb", "others_mb", "is_cut_off"),
    [(50, (), False), (65, (), True), (10, (30, 30), False), (25, (30, 30), True), (20, (15, 15), False)],
)
async def test_unread_answers_at_the_limit_disconnect_the_largest_clients(
    remoting: Remoting, own_mb: int, others_mb: tuple[int, ...], is_cut_off: bool
) -> None:
    await remoting.client.ok(105, ROUTE)
    hub = remoting.server.hub
    (served,) = hub.connections
    others = [RemotingConnection(hub) for _ in others_mb]
    hub.messages.set_unread(served, 0)
    for other, mb in zip(others, others_mb, strict=True):
        hub.messages.set_unread(other, mb << 20)
    transport = cast(asyncio.Transport, served._transport)
    served._transport = Unread(transport, own_mb << 20)  # type: ignore[assignment]
    served._flush()
    assert served._transport.is_closing() is is_cut_off
    for each in list(hub.messages.unread):
        hub.messages.has_read(each)


async def test_waiting_pulls_leave_room_for_heartbeats(
    remoting: Remoting, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands = [Command(code=11, opaque=1_000 + n, ext={"topic": f"t{n}"}) for n in range(20)]
    remoting.server.hub.limits = ConnectionLimits(running=10, waiting_bytes=memory_of(commands))
    gate = Gate(remoting, monkeypatch, RequestCode.PULL_MESSAGE)
    pulls = [remoting.client.expect(command.opaque) for command in commands]
    remoting.client.send(*commands)
    refused = await remoting.client.call(11, {"topic": "one too many"})
    assert (refused.code, refused.remark) == (
        2,
        "[REJECTREQUEST]system busy, start flow control for a while",
    )
    assert remoting.server.dispatcher.answered["11", 2] == 1
    await remoting.client.ok(105, ROUTE)
    for n in range(20):
        gate.let_go(f"t{n}")
    await asyncio.gather(*pulls)
    gate.let_go("more")
    await remoting.client.ok(11, {"topic": "more"})


async def test_total_number_of_waiting_pulls_is_bounded(
    remoting: Remoting, monkeypatch: pytest.MonkeyPatch
) -> None:
    remoting.server.hub.limits = ConnectionLimits(waiting_bytes_together=2_000)
    gate = Gate(remoting, monkeypatch, RequestCode.PULL_MESSAGE)
    async with remoting.another() as other:
        other.ask(11, {"topic": "t"})
        await until(lambda: gate.started)
        assert (await remoting.client.call(11, {"topic": "t"})).code == 2
    await until(lambda: gate.ended)
    gate.let_go("t")
    await remoting.client.ok(11, {"topic": "t"})


async def test_memory_of_waiting_pulls_counts(remoting: Remoting, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate(remoting, monkeypatch, RequestCode.PULL_MESSAGE)
    assert (await remoting.client.call(11, {"topic": "t"}, bytes(4 << 20))).code == 2
    many = {str(n): "1" for n in range(30_000)}
    assert (await remoting.client.call(11, {"topic": "t", **many})).code == 2
    pulls = [remoting.client.ask(11, {"topic": "t", "junk": "y" * 1_000_000}) for _ in range(4)]
    assert (await remoting.client.call(11, {"topic": "t", "junk": "y" * 1_000_000})).code == 2
    await remoting.client.ok(105, ROUTE)
    for _ in pulls:
        gate.let_go("t")
    await asyncio.gather(*pulls)


async def test_memory_freed_after_a_flood_is_returned_once(
    remoting: Remoting, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_after_by_hand(remoting)
    given: list[bool] = []
    monkeypatch.setattr(server, "give_back", lambda: given.append(True))
    remoting.server.hub.limits = ConnectionLimits(running=1)
    remoting.server._look_after()
    assert not given
    await asyncio.gather(*(remoting.client.ask(105, ROUTE) for _ in range(10)))
    for _ in range(2):
        remoting.server._look_after()
    assert given == [True]


async def test_a_stalled_large_frame_is_dropped_when_memory_is_needed(
    remoting: Remoting,
) -> None:
    looked_after_by_hand(remoting)
    frame = encode(Command(code=105, ext=ROUTE, body=bytes(1 << 20)))
    async with remoting.another() as other:
        remoting.client.write(frame[:-1])
        await until(lambda: remoting.server.held_bytes == len(frame) - 1)
        slow = next(each for each in remoting.server.hub.connections if each.incomplete)
        for is_spent, is_paused, quiet in ((False, False, 2), (True, True, 2), (True, False, 0)):
            remoting.server.hub.budget._limit = 1 << (20 if is_spent else 30)
            slow._is_paused, slow.quiet = is_paused, quiet
            remoting.server._look_after()
            await other.ok(105, ROUTE)
            assert remoting.server.connections == 2
        remoting.server._look_after()
        await remoting.client.closed()
        await until(lambda: remoting.server.held_bytes == 0)
        await other.ok(105, ROUTE)


async def test_reads_are_small_while_memory_is_short(remoting: Remoting) -> None:
    hub = remoting.server.hub
    await remoting.client.ok(105, ROUTE)
    (served,) = hub.connections
    sizes = [len(served.get_buffer(-1))]
    hub.budget._limit = 0
    sizes.append(len(served.get_buffer(-1)))
    assert sizes == [256 << 10, 4 << 10]
    await remoting.client.ok(105, ROUTE, bytes(10_000))  # and the connection stays usable
