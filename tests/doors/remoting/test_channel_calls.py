"""What the broker asks a client, and waits for: over real sockets, whatever the client makes of it."""

import asyncio

import pytest

from mocketmq.errors import ClientFailedError, ClientTimeoutError
from mocketmq.remoting.channel import RemotingChannel
from mocketmq.remoting.listening import server
from mocketmq.remoting.wire.codes import RequestCode
from mocketmq.remoting.wire.command import Command
from mocketmq.remoting.wire.errors import FrameError
from mocketmq.remoting.wire.frame import MAX_HEADER
from tests.doors.remoting.consuming import HEART_BEAT, beat
from tests.support.patience import PATIENCE_S
from tests.support.remoting import Remoting, RemotingClient, running_remoting

INFO = RequestCode.GET_CONSUMER_RUNNING_INFO
EXT = {"consumerGroup": "g", "clientId": "one"}


async def channel_of(remoting: Remoting, client: RemotingClient, name: str = "one") -> RemotingChannel:
    """The broker's end of a client's connection."""
    await client.ok(HEART_BEAT, body=beat(client=name, producers=("makers",)))
    member = remoting.broker.registry.clients.producer(name)
    assert member is not None
    assert isinstance(member.channel, RemotingChannel)
    return member.channel


async def test_a_client_answers() -> None:
    async with running_remoting() as remoting:
        channel = await channel_of(remoting, remoting.client)
        calling = asyncio.create_task(channel.call(INFO, EXT, b"what?"))
        asked = await remoting.client.push()
        assert (asked.code, asked.ext, asked.body) == (INFO, EXT, b"what?")
        assert not asked.is_oneway
        remoting.client.send(asked.answer(0, {"said": "so"}, b"this", None))
        answer = await calling
        assert (answer.ext, answer.body) == ({"said": "so"}, b"this")


async def test_answers_find_their_requests_in_any_order() -> None:
    async with running_remoting() as remoting:
        channel = await channel_of(remoting, remoting.client)
        calls = [asyncio.create_task(channel.call(INFO, EXT, b"%d" % n)) for n in range(50)]
        asked = [await remoting.client.push() for _ in calls]
        assert len({one.opaque for one in asked}) == len(calls)
        remoting.client.send(*(one.answer(0, {}, one.body, None) for one in reversed(asked)))
        assert [answer.body for answer in await asyncio.gather(*calls)] == [b"%d" % n for n in range(50)]


@pytest.mark.parametrize(("remark", "reason"), [("no such group", "no such group"), (None, "code 3")])
async def test_a_client_refuses(remark: str | None, reason: str) -> None:
    async with running_remoting() as remoting:
        channel = await channel_of(remoting, remoting.client)
        calling = asyncio.create_task(channel.call(INFO, EXT))
        asked = await remoting.client.push()
        remoting.client.send(asked.answer(3, {}, b"", remark))
        with pytest.raises(ClientFailedError, match=reason):
            await calling


async def test_a_client_that_never_answers() -> None:
    async with running_remoting() as remoting:
        channel = await channel_of(remoting, remoting.client)
        with pytest.raises(ClientTimeoutError, match=r"has not answered in 0\.01 s"):
            await channel.call(INFO, EXT, timeout_s=0.01)
        # Late, twice, and to what was never asked: nobody waits, and the connection goes on.
        asked = await remoting.client.push()
        late = asked.answer(0, {}, b"late", None)
        remoting.client.send(late, late, Command(code=0, opaque=1_000, flag=1))
        calling = asyncio.create_task(channel.call(INFO, EXT))
        again = await remoting.client.push()
        assert again.opaque != asked.opaque
        remoting.client.send(again.answer(0, {}, b"first", None), again.answer(1, {}, b"second", "no"))
        assert (await calling).body == b"first"


async def test_a_client_that_goes_away() -> None:
    async with running_remoting() as remoting, remoting.another() as client:
        channel = await channel_of(remoting, client)
        calling = asyncio.create_task(channel.call(INFO, EXT))
        await client.push()
        await client.close()
        with pytest.raises(ClientFailedError):
            await calling
        with pytest.raises(ClientFailedError):
            await channel.call(INFO, EXT)


async def test_a_broker_that_stops_waits_for_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "GRACE_S", 10 * PATIENCE_S)
    async with running_remoting() as remoting:
        channel = await channel_of(remoting, remoting.client)
        calling = asyncio.create_task(channel.call(INFO, EXT, timeout_s=10 * PATIENCE_S))
        await remoting.client.push()
        async with asyncio.timeout(PATIENCE_S):
            await remoting.server.close()
        with pytest.raises(ClientFailedError):
            await calling


async def test_what_nobody_waits_for_any_longer_is_forgotten() -> None:
    async with running_remoting() as remoting:
        channel = await channel_of(remoting, remoting.client)
        calling = asyncio.create_task(channel.call(INFO, EXT))
        asked = await remoting.client.push()
        calling.cancel()
        await asyncio.wait([calling])
        remoting.client.send(asked.answer(0, {}, b"", None))
        await remoting.client.ok(HEART_BEAT, body=beat())
        assert calling.cancelled()


async def test_what_cannot_be_sent_is_not_waited_for() -> None:
    async with running_remoting() as remoting:
        channel = await channel_of(remoting, remoting.client)
        with pytest.raises(FrameError):
            await channel.call(INFO, {"clientId": "x" * MAX_HEADER})
        assert not channel._calls
        await remoting.client.ok(HEART_BEAT, body=beat())
