"""The blocking Python client against a real broker process."""

import asyncio
import inspect
import socket
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any, TypeVar

import pytest

from mocketmq import BlockingClient, BrokerError, UnreachableError, body_of, outgoing
from mocketmq.client.operations import Operations
from mocketmq.errors import InvalidArgumentError
from tests.support.network import quiet_port
from tests.support.patience import PATIENCE_S
from tests.support.process import BrokerProcess, forked_broker

T = TypeVar("T")


@pytest.fixture
async def process() -> AsyncIterator[BrokerProcess]:
    async with forked_broker("--clock", "manual") as process:
        yield process


async def using(url: str, act: Callable[[BlockingClient], T], token: str | None = None) -> T:
    """Call ``act`` with a client in a separate thread, and return its result."""

    def run() -> T:
        with BlockingClient(url, token) as broker:
            return act(broker)

    return await asyncio.to_thread(run)


def public(kind: type[Any]) -> dict[str, Any]:
    return {name: getattr(kind, name) for name in dir(kind) if not name.startswith("_")}


def test_blocking_client_mirrors_every_operation() -> None:
    operations = public(Operations)
    assert public(BlockingClient).keys() == operations.keys() | {"close", "url"}
    for name, operation in operations.items():
        call = getattr(BlockingClient, name)
        assert inspect.signature(call) == inspect.signature(operation)
        assert call.__doc__ == operation.__doc__
        assert not inspect.iscoroutinefunction(call)


async def test_send_advance_receive_and_acknowledge(process: BrokerProcess) -> None:
    def job(broker: BlockingClient) -> None:
        assert broker.ready() == {"status": "ready"}
        sent = broker.send("orders", "naïve ☃", delay_level=3, tag="paid", keys=["a"])
        assert broker.receive("orders", group="g") == []
        assert broker.advance("10s")["fired"] == 1
        (message,) = broker.receive("orders", group="g", tags="paid")
        assert (message["message_id"], body_of(message)) == (sent["message_id"], "naïve ☃".encode())
        assert broker.acknowledge("g", [message]) == {"settled": [message["receipt"]], "failed": []}
        broker.send_batch("orders", [outgoing(b"\xff\x00"), outgoing("x" * 1_000_000)])
        bodies = {body_of(each) for each in broker.receive("orders", group="g", max_messages=9)}
        assert bodies == {b"\xff\x00", b"x" * 1_000_000}
        assert {each["message_id"] for each in broker.messages_by_key("a")} == {sent["message_id"]}
        assert broker.delete_topic("orders")["deleted"] == "orders"

    await using(process.url, job)


async def test_a_long_poll_is_woken_by_the_send(process: BrokerProcess) -> None:
    waiting = asyncio.create_task(
        using(process.url, lambda broker: broker.receive("orders", group="g", wait="30s"))
    )
    await using(process.url, lambda broker: broker.send("orders", "hi"))
    (message,) = await waiting
    assert message["body"] == "hi"


async def test_refusal_raises_an_error_naming_the_field() -> None:
    async with forked_broker("--token", "secret") as process:
        with pytest.raises(BrokerError) as refusal:
            await using(process.url, lambda broker: broker.send("bad topic", "x"), "secret")
        assert (refusal.value.status, refusal.value.field) == (400, "topic")
        assert refusal.value.allowed and refusal.value.allowed in str(refusal.value)
        with pytest.raises(BrokerError) as refusal:
            await using(process.url, lambda broker: broker.info(), "wrong")
        assert refusal.value.status == 401


async def test_an_unreachable_broker_is_reported_in_a_sentence(process: BrokerProcess) -> None:
    process.kill()
    await process.wait()
    with pytest.raises(UnreachableError, match=process.url):
        await using(process.url, lambda broker: broker.clock())


async def test_client_reconnects_to_a_restarted_broker() -> None:
    port = ("--http-port", str(quiet_port()))
    async with forked_broker(*port) as process:
        with BlockingClient(process.url) as broker:
            assert await asyncio.to_thread(broker.ready)
            process.kill()
            await process.wait()
            async with forked_broker(*port):
                assert await asyncio.to_thread(broker.ready)


def test_silent_broker_raises_a_timeout_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with (
            BlockingClient(url, answer_s=0.01) as broker,
            pytest.raises(UnreachableError, match=f"{url} .*timed out"),
        ):
            broker.ready()


def test_foreign_server_is_reported() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:

        def serve() -> None:
            connection, _ = other.accept()
            with connection:
                connection.recv(1 << 16)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")

        thread = threading.Thread(target=serve)
        thread.start()
        url = f"http://127.0.0.1:{other.getsockname()[1]}/below"
        with (
            BlockingClient(url) as broker,
            pytest.raises(
                BrokerError, match=f"{url} does not look like a mocketmq broker: it answered b'hello'"
            ),
        ):
            broker.info()
        thread.join()


@pytest.mark.parametrize("ends", ["thread", "client"])
def test_a_connection_ends_with_its_thread_and_with_the_client(ends: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        broker = BlockingClient(f"http://127.0.0.1:{other.getsockname()[1]}")
        answered, gate = threading.Event(), threading.Event()

        def use() -> None:
            assert broker.ready() == {"status": "ready"}
            answered.set()
            if ends == "client":
                gate.wait()

        thread = threading.Thread(target=use)
        thread.start()
        connection, _ = other.accept()
        with connection:
            connection.settimeout(PATIENCE_S)
            assert connection.recv(1 << 16).startswith(b"GET ")
            connection.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 18\r\n\r\n{"status":"ready"}')
            assert answered.wait(PATIENCE_S)
            if ends == "client":
                broker.close()
            assert connection.recv(1) == b""
        gate.set()
        thread.join()
        broker.close()


@pytest.mark.parametrize(
    "url", ["localhost:9877", "http://", "http://:9", "ftp://x", "http://x:65536", "http://x:port", ""]
)
def test_an_invalid_address_is_refused(url: str) -> None:
    with pytest.raises(InvalidArgumentError, match=f"url is '{url}'; allowed: an address such as http://127"):
        BlockingClient(url)


@pytest.mark.parametrize("token", ["a\nb", "ä"])
def test_token_unfit_for_a_header_is_refused_and_not_shown(token: str) -> None:
    with pytest.raises(InvalidArgumentError, match="token is hidden"):
        BlockingClient(token=token)
