"""Messages on their way to clients take bounded memory, for which requests wait in turn."""

import asyncio

import pytest

from mocketmq.connections.reading_pace import LEAST_READ_BYTES
from mocketmq.remoting.listening import message_memory
from mocketmq.remoting.listening.message_memory import (
    OWN_UNREAD_BYTES,
    MessageLoad,
    MessageMemory,
)
from mocketmq.remoting.wire.codes import RemotingError, ResponseCode
from tests.doors.remoting.consuming import PULL, pull_of
from tests.doors.remoting.gates import ROUTE, until
from tests.doors.remoting.popping import PEEK, POP, pop_of
from tests.support.brokers import TOPIC, send
from tests.support.patience import HANGING_S
from tests.support.remoting import Remoting

MOST, LIMIT = 100, 300


class Client:
    """A connection whose client has not read ``unread`` bytes."""

    def __init__(self, unread: int = 0) -> None:
        self.unread = unread
        self.aborted = ""

    def abort(self, why: str) -> None:
        self.aborted = why


def small_memory() -> MessageMemory:
    return MessageMemory(MOST, LIMIT)


async def load_for(memory: MessageMemory, client: Client) -> MessageLoad:
    load = MessageLoad(memory, client)
    await load.wait_for_room()
    return load


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_reservations_never_exceed_the_limit() -> None:
    memory, most = small_memory(), 0
    given: list[int] = []

    async def request(number: int) -> None:
        nonlocal most
        load = await load_for(memory, Client())
        most = max(most, memory.reserved)
        given.append(number)
        await asyncio.sleep(0)
        load.settle(10)  # what was read is less than what was reserved
        await asyncio.sleep(0)
        load.end(None)

    async with asyncio.timeout(HANGING_S):
        await asyncio.gather(*(request(number) for number in range(50)))
    assert given == list(range(50))
    assert most == LIMIT
    assert memory.reserved == 0


async def test_connections_take_turns() -> None:
    memory = small_memory()
    greedy, modest = Client(), Client()
    held = [await load_for(memory, greedy) for _ in range(LIMIT // MOST)]
    waiting = [asyncio.create_task(load_for(memory, greedy)) for _ in range(20)]
    await turns()
    other = asyncio.create_task(load_for(memory, modest))
    await turns()
    for load in held[:2]:
        load.end(None)
    await turns()
    assert other.done()
    assert sum(task.done() for task in waiting) == 1
    for task in waiting:
        task.cancel()


async def test_a_connection_that_reads_nothing_gets_no_more() -> None:
    memory = MessageMemory(MOST, 2 * OWN_UNREAD_BYTES)
    deaf = Client()
    memory.set_unread(deaf, OWN_UNREAD_BYTES)
    waiting = asyncio.create_task(load_for(memory, deaf))
    await turns()
    assert not waiting.done()
    (await load_for(memory, Client())).end(None)
    memory.has_read(deaf)
    (await waiting).end(None)
    assert memory.reserved == 0


async def test_clients_that_read_too_little_are_closed_while_others_wait() -> None:
    memory = MessageMemory(MOST, 10 * LEAST_READ_BYTES)
    memory.turn_s = 0.0
    deaf, slow = Client(5 * LEAST_READ_BYTES), Client(LEAST_READ_BYTES - 1)
    memory.limit = deaf.unread + slow.unread
    for client in (deaf, slow):
        memory.set_unread(client, client.unread)
    waiting = asyncio.create_task(load_for(memory, Client()))
    await turns()
    await until(lambda: deaf.aborted)
    assert deaf.aborted == f"the client has not read its messages: {deaf.unread} bytes unread"
    assert not slow.aborted
    memory.has_read(deaf)
    await waiting


@pytest.mark.interpreted
async def test_a_request_is_refused_after_a_long_wait_and_beyond_the_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    memory = small_memory()
    held = [await load_for(memory, Client()) for _ in range(LIMIT // MOST)]
    monkeypatch.setattr(message_memory, "MAX_WAITING", 1)
    waiting = asyncio.create_task(load_for(memory, Client()))
    await turns()
    with pytest.raises(RemotingError) as one_too_many:
        await load_for(memory, Client())
    waiting.cancel()
    memory.wait_s = 0.0
    with pytest.raises(RemotingError) as late:
        await load_for(memory, Client())
    assert one_too_many.value.code == late.value.code == ResponseCode.SYSTEM_BUSY
    for load in held:
        load.end(None)
    (await load_for(memory, Client())).end(None)
    assert memory.reserved == 0


@pytest.mark.parametrize(
    ("code", "ext"),
    [(PULL, pull_of(0)), (POP, pop_of(pollTime=0)), (PEEK, pop_of())],
    ids=["pull", "pop", "peek"],
)
async def test_requests_for_messages_wait_for_memory(
    remoting: Remoting, code: int, ext: dict[str, str]
) -> None:
    memory = remoting.server.hub.messages
    other = Client()
    held = [await load_for(memory, other) for _ in range(memory.limit // memory.most)]
    await remoting.broker.registry.topics.ensure(TOPIC, 1)
    answer = await remoting.client.call(code, ext)  # needs no memory
    assert answer.code in (ResponseCode.PULL_NOT_FOUND, ResponseCode.POLLING_TIMEOUT)
    await send(remoting.broker, "one", queue=0)
    asked = remoting.client.ask(code, ext)
    for _ in range(20):
        await remoting.client.ok(105, ROUTE)
    assert not asked.done()
    held[0].end(None)
    async with asyncio.timeout(HANGING_S):
        assert b"one" in (await asked).body
    for load in held:
        load.end(None)
    await until(lambda: memory.reserved == 0)
