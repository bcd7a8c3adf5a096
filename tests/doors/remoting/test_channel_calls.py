"""Requests of the broker to a client, over real sockets, with right, wrong and missing answers."""

import asyncio

import pytest

from mocketmq.errors import ClientFailedError, ClientTimeoutError
from mocketmq.remoting.channel import RemotingChannel
from mocketmq.remoting.wire.codes import FrameError, RequestCode
from mocketmq.remoting.wire.command import Command
from mocketmq.remoting.wire.frame import MAX_HEADER
from tests.doors.remoting.consuming import HEART_BEAT, beat
from tests.support.patience import PATIENCE_S
from tests.support.remoting import Remoting, RemotingClient, running_remoting

INFO = RequestCode.GET_CONSUMER_RUNNING_INFO
EXT = {"consumerGroup": "g", "clientId": "one"}


async def channel_of(remoting: Remoting, client: RemotingClient) -> RemotingChannel:
    """Return the broker's end of a client's connection."""
    await client.ok(HEART_BEAT, body=beat(client="one", producers=("makers",)))
    member = remoting.broker.registry.clients.producer("one")
    assert member is not None
    assert isinstance(member.channel, RemotingChannel)
    return member.channel


async def test_client_answers_a_call() -> None:
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
async def test_refusal_by_the_client_is_raised(remark: str | None, reason: str) -> None:
    async with running_remoting() as remoting:
        channel = await channel_of(remoting, remoting.client)
        calling = asyncio.create_task(channel.call(INFO, EXT))
        asked = await remoting.client.push()
        remoting.client.send(asked.answer(3, {}, b"", remark))
        with pytest.raises(ClientFailedError, match=reason):
            await calling


async def test_silent_client_times_out() -> None:
    async with running_remoting() as remoting:
        channel = await channel_of(remoting, remoting.client)
        with pytest.raises(ClientTimeoutError, match=r"did not answer within 0\.01 s"):
            await channel.call(INFO, EXT, timeout_s=0.01)
        # Late, repeated and unsolicited answers are ignored, and the connection stays usable.
        asked = await remoting.client.push()
        late = asked.answer(0, {}, b"late", None)
        remoting.client.send(late, late, Command(code=0, opaque=1_000, flag=1))
        calling = asyncio.create_task(channel.call(INFO, EXT))
        again = await remoting.client.push()
        assert again.opaque != asked.opaque
        remoting.client.send(again.answer(0, {}, b"first", None), again.answer(1, {}, b"second", "no"))
        assert (await calling).body == b"first"


async def test_disconnect_fails_the_call() -> None:
    async with running_remoting() as remoting, remoting.another() as client:
        channel = await channel_of(remoting, client)
        calling = asyncio.create_task(channel.call(INFO, EXT))
        await client.push()
        await client.close()
        with pytest.raises(ClientFailedError):
            await calling
        with pytest.raises(ClientFailedError):
            await channel.call(INFO, EXT)


async def test_a_stopping_broker_does_not_wait_for_clients() -> None:
    async with running_remoting() as remoting:
        remoting.server.grace_s = 10 * PATIENCE_S
        channel = await channel_of(remoting, remoting.client)
        calling = asyncio.create_task(channel.call(INFO, EXT, timeout_s=10 * PATIENCE_S))
        await remoting.client.push()
        async with asyncio.timeout(PATIENCE_S):
            await remoting.server.close()
        with pytest.raises(ClientFailedError):
            await calling


async def test_abandoned_calls_are_forgotten() -> None:
    async with running_remoting() as remoting:
        channel = await channel_of(remoting, remoting.client)
        calling = asyncio.create_task(channel.call(INFO, EXT))
        asked = await remoting.client.push()
        calling.cancel()
        await asyncio.wait([calling])
        remoting.client.send(asked.answer(0, {}, b"", None))
        await remoting.client.ok(HEART_BEAT, body=beat())
        assert calling.cancelled()


async def test_unsendable_call_fails_at_once() -> None:
    async with running_remoting() as remoting:
        channel = await channel_of(remoting, remoting.client)
        with pytest.raises(FrameError):
            await channel.call(INFO, {"clientId": "x" * MAX_HEADER})
        assert not channel._calls
        await remoting.client.ok(HEART_BEAT, body=beat())
