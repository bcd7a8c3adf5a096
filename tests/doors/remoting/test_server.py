"""Listeners for remoting clients: ports, pipelining, refusals, idle connections, and stopping."""

import asyncio
import logging
import re
import resource
import socket
from contextlib import AsyncExitStack
from typing import cast

import psutil
import pytest

from mocketmq.app import running_emulator
from mocketmq.errors import ListenError, StoreUnavailableError
from mocketmq.remoting.call import Response
from mocketmq.remoting.channel import RemotingChannel
from mocketmq.remoting.listening import ports, server
from mocketmq.remoting.wire.codes import RequestCode
from mocketmq.remoting.wire.command import ROCKETMQ, Command
from mocketmq.remoting.wire.frame import encode
from mocketmq.rocketmq_versions import V5_0_0
from mocketmq.settings import Settings
from tests.doors.remoting import consuming
from tests.doors.remoting.gates import (
    CODE,
    ROUTE,
    Gate,
    Watched,
    looked_after_by_hand,
    metrics,
    serve_by,
    until,
)
from tests.support.brokers import FREE_PORTS
from tests.support.network import quiet_port
from tests.support.process import broker_process, forked_broker
from tests.support.remoting import ClosedError, Remoting, connected, running_remoting

# Ports


async def test_every_listener_serves_every_request() -> None:
    async with forked_broker() as process:
        host, port = process.name_server
        for each in (port, process.broker_port, process.broker_port - 2):
            async with connected(host, each) as client:
                await client.ok(105, ROUTE)
                assert (await client.call(9_999)).code == 3


async def test_free_port_is_chosen_with_its_vip_channel() -> None:
    async with running_remoting() as one, running_remoting() as two:
        for each in (one.server, two.server):
            assert each.vip_port == each.broker_port - 2
        assert one.server.broker_address == f"127.0.0.1:{one.server.broker_port}"


async def test_missing_pair_of_free_ports_drops_the_vip_channel(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ports, "VIP_OFFSET", 0)
    async with running_remoting() as remoting:
        assert remoting.server.vip_port is None
        assert len(remoting.server._port_listeners) == 2  # no listener from failed attempts
        await remoting.client.ok(105, ROUTE)


async def test_a_fixed_port_whose_vip_channel_is_taken_is_warned_about(
    caplog: pytest.LogCaptureFixture,
) -> None:
    port = quiet_port(-2)
    with socket.create_server(("127.0.0.1", port - 2)):
        async with running_remoting(broker_port=port) as remoting:
            assert (remoting.server.broker_port, remoting.server.vip_port) == (port, None)
    (warning,) = (text for text in caplog.messages if "VIP" in text)
    assert f"VIP channel disabled: cannot listen on 127.0.0.1:{port - 2} for RocketMQ clients: " in warning


@pytest.mark.parametrize(
    ("setting", "option"), [("namesrv_port", "--namesrv-port"), ("broker_port", "--broker-port")]
)
async def test_a_taken_port_is_named_and_leaves_the_others_free(setting: str, option: str) -> None:
    async with running_remoting() as first:
        taken = first.server.namesrv_port
        wanted = (
            f"cannot listen on 127.0.0.1:{taken} for RocketMQ clients: .*with {option}, or .*--no-remoting"
        )
        for _ in range(2):
            with pytest.raises(ListenError, match=wanted):
                async with running_remoting(**{setting: taken}):
                    pass


async def test_a_host_that_is_not_of_this_machine_is_blamed_and_not_the_port() -> None:
    wanted = r"cannot listen on 203\.0\.113\.1:\d+ for RocketMQ clients: .*; choose another address"
    with pytest.raises(ListenError, match=wanted):
        async with running_remoting(host="203.0.113.1"):
            pass


async def test_remoting_can_be_switched_off() -> None:
    async with running_emulator(Settings(data=":memory:", remoting=False, **FREE_PORTS)) as emulator:
        assert emulator.remoting is None
    async with forked_broker("--no-remoting", "--token", "s3cret") as process:
        assert "name server" not in process.start_line
    assert "need no token" not in process.stderr


async def test_broker_raises_its_limit_of_open_files() -> None:
    few = ("sh", "-c", 'ulimit -Sn 512 && exec "$@"', "sh")
    async with broker_process(wrapper=few) as process:
        soft, hard = psutil.Process(process.pid).rlimit(resource.RLIMIT_NOFILE)
    assert soft == (65_536 if hard == resource.RLIM_INFINITY else min(65_536, hard))


async def test_token_without_remoting_accounts_logs_a_warning() -> None:
    warning = "need no token at the ports of name server and broker: set --acl or --access-keys"
    for more, is_warned in ([], True), (["--access-keys", "ak:s3cret"], False):
        async with forked_broker("--token", "s3cret", *more) as process:
            pass
        assert (warning in process.stderr) is is_warned
        assert "s3cret" not in process.stderr


# Requests


async def test_requests_begin_in_order_and_end_in_any(
    remoting: Remoting, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(remoting, monkeypatch)
    answers = {topic: remoting.client.ask(105, {"topic": topic}) for topic in "abc"}
    await until(lambda: gate.started == ["a", "b", "c"])
    for topic in "cab":
        gate.let_go(topic)
        assert (await answers[topic]).body == topic.encode()


async def test_answers_of_one_turn_are_written_together(
    remoting: Remoting, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(remoting, monkeypatch)
    answers = [remoting.client.ask(105, {"topic": topic}) for topic in "abc"]
    await until(lambda: len(gate.started) == 3)
    (served, *_) = remoting.server.hub.connections
    written: list[bytes] = []
    monkeypatch.setattr(served, "_transport", Watched(cast(asyncio.Transport, served._transport), written))
    for topic in "abc":
        gate.let_go(topic)
    await asyncio.gather(*answers)
    assert len(written) == 1


async def test_an_unknown_code_is_refused_and_counted(
    remoting: Remoting, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "mocketmq.remoting")
    for _ in range(2):
        answer = await remoting.client.call(9_999)
        assert (answer.code, answer.remark, answer.ext) == (3, " request type 9999 not supported", {})
    assert remoting.server.dispatcher.answered["9999", 3] == 2
    assert caplog.messages == ["a client sent request code 9999, which is not supported"]


async def test_memory_of_unknown_codes_is_bounded(remoting: Remoting) -> None:
    for code in range(20_000, 20_200):
        assert (await remoting.client.call(code)).code == 3
    answered = remoting.server.dispatcher.answered
    assert (answered["20000", 3], answered["20099", 3], answered["20100", 3]) == (1, 1, 0)
    assert answered["other", 3] == 100


@pytest.mark.parametrize("code", [105, 9_999])
async def test_a_oneway_request_is_not_answered(remoting: Remoting, code: int) -> None:
    remoting.client.oneway(code, {"topic": "no such name"})
    await remoting.client.ok(105, ROUTE)  # the client fails if it gets a stray answer
    assert remoting.server.dispatcher.answered[str(code), 3 if code == 9_999 else 17] == 1


async def test_answers_of_clients_are_dropped(remoting: Remoting) -> None:
    remoting.client.send(Command(code=0, flag=1, opaque=5), Command(code=105, flag=3, ext=ROUTE))
    await remoting.client.ok(105, ROUTE)
    assert sum(remoting.server.dispatcher.answered.values()) == 1


async def test_an_answer_has_the_header_form_of_its_request(remoting: Remoting) -> None:
    answer = await remoting.client.ok(105, ROUTE, serialization=ROCKETMQ)
    assert answer.serialization == ROCKETMQ
    assert (await remoting.client.ok(105, ROUTE)).serialization != ROCKETMQ


async def test_answers_carry_javas_language_and_version(remoting: Remoting) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", remoting.server.namesrv_port)
    for code in (105, 9_999):
        writer.write(encode(Command(code=code, opaque=7, ext=ROUTE)))
        length = int.from_bytes(await reader.readexactly(4), "big")
        header = await reader.readexactly(length)
        for piece in (b'"extFields":{}', b'"language":"JAVA"', b'"version":513', b'"opaque":7', b'"flag":1'):
            assert piece in header
    writer.close()
    await writer.wait_closed()


async def test_clients_are_told_the_version_of_the_setting() -> None:
    async with running_remoting(server_version=V5_0_0) as remoting:
        assert (await remoting.client.ok(105, ROUTE)).version == V5_0_0
        assert (await remoting.client.call(9_999)).version == V5_0_0
        async with connected("127.0.0.1", remoting.server.broker_port) as other:
            await consuming.join(other, "one")
            await consuming.join(remoting.client, "two")
            assert (await other.push()).version == V5_0_0


async def test_errors_have_code_and_remark_and_keep_the_connection_open(
    remoting: Remoting, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(error: Exception) -> Response:
        raise error

    async def too_large() -> Response:
        return Response(body=bytes(17 << 20))

    for make, code, remark in (
        (lambda _: fail(StoreUnavailableError("the disk is full")), 14, "the disk is full"),
        (lambda _: fail(ZeroDivisionError("oops")), 1, "a defect in mocketmq: ZeroDivisionError('oops')"),
        (lambda _: fail(StoreUnavailableError("a lone \ud800")), 14, r"a lone \ud800"),
        (lambda _: too_large(), 1, "the response cannot be sent: the length of a frame is 178"),
    ):
        serve_by(make, remoting, monkeypatch)
        answer = await remoting.client.call(105, ROUTE)
        assert (answer.code, answer.ext) == (code, {})
        assert (answer.remark or "").startswith(remark)
    assert [record.levelname for record in caplog.records if record.exc_info] == ["ERROR"]


async def test_metrics_count_requests_and_connections(remoting: Remoting) -> None:
    await remoting.client.ok(105, ROUTE)
    await remoting.client.call(105, {"topic": "no such name"})
    await remoting.client.call(9_999)
    async with remoting.another():
        await until(lambda: remoting.server.connections == 2)
        text = await metrics(remoting)
    assert 'mocketmq_remoting_requests_total{answer="0",code="105"} 1.0' in text
    assert 'mocketmq_remoting_requests_total{answer="17",code="105"} 1.0' in text
    assert 'mocketmq_remoting_requests_total{answer="3",code="9999"} 1.0' in text
    assert re.search(r"^mocketmq_remoting_connections 2\.0$", text, re.MULTILINE)
    assert re.search(r"^mocketmq_remoting_held_bytes 0\.0$", text, re.MULTILINE)
    assert re.search(r"^mocketmq_remoting_unread_bytes 0\.0$", text, re.MULTILINE)


async def test_complete_requests_before_a_broken_frame_are_answered(
    remoting: Remoting, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(remoting, monkeypatch)
    async with remoting.another() as client:
        slow, quick = client.expect(1_001), client.expect(1_002)
        slowly = encode(Command(code=CODE, opaque=1_001, ext={"topic": "slow"}))
        quickly = encode(Command(code=RequestCode.GET_BROKER_CLUSTER_INFO, opaque=1_002))
        client.write(slowly + quickly + b"\xff" * 64 + slowly)
        assert (await quick).code == 0
        client.write(slowly)
        assert not slow.done()
        gate.let_go("slow")
        assert (await slow).body == b"slow"
        await client.closed()
    assert gate.ended == ["slow"]


# Connecting and disconnecting


async def test_an_idle_connection_is_closed_after_120_seconds(remoting: Remoting) -> None:
    assert server.TICK_S * server.IDLE_TICKS == 120
    looked_after_by_hand(remoting)
    async with remoting.another() as busy:
        for _ in range(server.IDLE_TICKS - 1):
            remoting.server._look_after()
            await busy.ok(105, ROUTE)
        assert remoting.server.connections == 2
        remoting.server._look_after()
        await remoting.client.closed()
        await busy.ok(105, ROUTE)
        assert remoting.server.connections == 1


async def test_idle_check_runs_periodically(remoting: Remoting) -> None:
    remoting.server.tick_s = 0.0
    remoting.server._tick()
    await remoting.client.closed()


async def test_the_end_of_a_channel_is_reported_once_after_its_last_request(
    remoting: Remoting, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone: list[RemotingChannel] = []
    monkeypatch.setattr(remoting.broker.registry.clients, "gone", gone.append)
    gate = Gate(remoting, monkeypatch)
    async with remoting.another() as client:
        client.ask(105, {"topic": "slow"})
        await until(lambda: gate.started)
        address = client.address
    await until(lambda: remoting.server.connections == 1)
    for _ in range(10):
        await remoting.client.call(9_999)
    assert not gone
    gate.let_go("slow")
    await until(lambda: gone)
    assert [channel.remote for channel in gone] == [address]
    assert gate.ended == ["slow"]


async def test_disconnect_ends_pulls_and_finishes_other_requests(
    remoting: Remoting, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick = Gate(remoting, monkeypatch)
    pulls = Gate(remoting, monkeypatch, RequestCode.PULL_MESSAGE)
    async with remoting.another() as client:
        client.ask(11, {"topic": "pull"})
        client.oneway(105, {"topic": "send"})
        await until(lambda: pulls.started and quick.started)
    await until(lambda: pulls.ended)
    assert not quick.ended
    quick.let_go("send")
    await until(lambda: quick.ended)
    assert remoting.server.dispatcher.answered["105", 0] == 1


async def test_stop_answers_received_requests_and_closes(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_remoting() as remoting:
        gate = Gate(remoting, monkeypatch)
        port = remoting.server.broker_port
        answer = remoting.client.ask(105, {"topic": "slow"})
        await until(lambda: gate.started)
        closing = asyncio.create_task(remoting.server.close())
        await until(lambda: not any(one._servers for one in remoting.server._port_listeners.values()))
        late = remoting.client.ask(105, {"topic": "late"})
        gate.let_go("slow")
        assert (await answer).body == b"slow"
        await closing
        with pytest.raises(ClosedError):
            await late
        assert gate.started == ["slow"]
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port)
        assert remoting.server._ticking
        assert remoting.server._ticking.cancelled()


async def test_stop_is_bounded_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_remoting() as remoting:
        remoting.server.grace_s = 0.0
        gate = Gate(remoting, monkeypatch)
        remoting.client.ask(105, {"topic": "stuck"})
        await until(lambda: gate.started)
        await remoting.server.close()
        assert gate.ended == ["stuck"]
        await remoting.client.closed()
        await remoting.server.close()


async def test_stop_is_bounded_despite_requests_of_departed_clients(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running_remoting() as remoting:
        remoting.server.grace_s = 0.0
        gate = Gate(remoting, monkeypatch)
        async with remoting.another() as client:
            client.ask(105, {"topic": "stuck"})
            await until(lambda: gate.started)
        await until(lambda: remoting.server.connections == 1)
        await remoting.server.close()
        assert gate.ended == ["stuck"]


async def test_a_stop_ends_long_polls_with_an_answer() -> None:
    pull = {
        **{"consumerGroup": "g", "topic": "orders", "queueId": "0", "queueOffset": "0", "maxMsgNums": "32"},
        **{"sysFlag": "6", "commitOffset": "0", "suspendTimeoutMillis": "30000", "subVersion": "0"},
        **{"subscription": "*", "expressionType": "TAG"},
    }
    async with AsyncExitStack() as stack:
        async with running_remoting() as remoting:
            client = await stack.enter_async_context(remoting.another())
            await remoting.broker.registry.topics.ensure("orders", 1)
            answer = client.ask(11, pull)
            await until(lambda: remoting.broker.polls.count)
        assert (await answer).code == 19


async def test_immediate_disconnect_does_not_affect_others(remoting: Remoting) -> None:
    for _ in range(50):
        with socket.create_connection(("127.0.0.1", remoting.server.broker_port)) as gone:
            gone.sendall(encode(Command(code=105, ext=ROUTE)))
    await remoting.client.ok(105, ROUTE)
    await until(lambda: remoting.server.connections == 1)
