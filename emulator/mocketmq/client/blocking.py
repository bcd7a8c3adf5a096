"""The blocking client, whose operations are plain calls. It needs only the standard library."""

from __future__ import annotations

import functools
import select
import sys
import threading
import weakref
from collections.abc import Callable, Coroutine, Mapping
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from socket import socket
from typing import TYPE_CHECKING, Any, TypeVar, cast
from urllib.parse import urlsplit

from mocketmq import DEFAULT_URL
from mocketmq.client.answer import RawAnswer
from mocketmq.client.operations import CONNECT_S, Operations

if TYPE_CHECKING:
    from typing_extensions import Concatenate, ParamSpec, Self

    P = ParamSpec("P")

__tracebackhide__ = True
"""Makes pytest show the calling line of the test instead of this file."""

T = TypeVar("T")


class _Connection(Operations):
    """The operations over one connection. Waits happen in socket calls, so a coroutine never suspends."""

    def __init__(self, url: str, token: str | None, answer_s: float | None) -> None:
        super().__init__(url, token)
        address = urlsplit(self.url)
        assert address.hostname  # noqa: S101 - Operations has refused an address without host
        kind = HTTPSConnection if address.scheme == "https" else HTTPConnection
        self._http = kind(address.hostname, address.port, timeout=CONNECT_S)
        weakref.finalize(self, self._http.close)  # at the latest when its thread ends
        self._prefix = address.path
        self._answer_s = answer_s

    def close(self) -> None:
        self._http.close()

    async def _exchange(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]
    ) -> RawAnswer:
        self._connect()
        try:
            self._http.request(method, self._prefix + path, body, headers)
            response = self._http.getresponse()
            return RawAnswer(response.status, response.reason, response.read())
        except (OSError, HTTPException) as error:
            self.close()
            raise self._silent(error) from None
        except BaseException:
            self.close()  # otherwise the rest of this response would be read as the next response
            raise

    def _connect(self) -> None:
        """Connect, unless the connection is still open."""
        if self._http.sock and _is_readable(self._http.sock):  # the broker has closed the connection
            self.close()
        if not self._http.sock:
            try:
                self._http.connect()
            except OSError:
                raise self._nobody() from None
            self._http.sock.settimeout(self._answer_s)


def _is_readable(connection: socket) -> bool:
    if sys.platform == "win32":
        return bool(select.select([connection], [], [], 0)[0])
    poll = select.poll()  # unlike select(), supports file descriptors above 1023
    poll.register(connection, select.POLLIN)
    return bool(poll.poll(0))


def _blocking(
    operation: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[BlockingClient, P], T]:
    """Turn the operation into a plain call. Its coroutine never suspends, so it ends in its first step."""

    @functools.wraps(operation)
    def call(client: BlockingClient, /, *args: P.args, **options: P.kwargs) -> T:
        try:
            operation(client._connection, *args, **options).send(None)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        raise AssertionError(f"{operation.__name__} was suspended")

    return call


class BlockingClient:
    """A client for any number of threads. Methods raise BrokerError, UnreachableError.

    Each thread has its own connection, which is closed when the thread ends. A thread connects on its first
    operation, and reconnects if the broker has closed the connection. A response may take ``answer_s`` real
    seconds; by default, there is no limit.
    """

    def __init__(
        self, url: str = DEFAULT_URL, token: str | None = None, *, answer_s: float | None = None
    ) -> None:
        self._connections: weakref.WeakSet[_Connection] = weakref.WeakSet()
        self._of_thread = threading.local()
        self._new = functools.partial(_Connection, url, token, answer_s)
        _ = self._connection  # raises an error for an invalid address

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections. No thread may be waiting for a response."""
        for connection in list(self._connections):
            connection.close()

    @property
    def url(self) -> str:
        """The broker's address."""
        return self._connection.url

    @property
    def _connection(self) -> _Connection:
        """The connection of this thread."""
        try:
            return cast("_Connection", self._of_thread.connection)
        except AttributeError:
            connection = self._of_thread.connection = self._new()
            self._connections.add(connection)
            return connection

    # Messages
    send = _blocking(Operations.send)
    send_batch = _blocking(Operations.send_batch)
    seed = _blocking(Operations.seed)
    seed_text = _blocking(Operations.seed_text)
    receive = _blocking(Operations.receive)
    acknowledge = _blocking(Operations.acknowledge)
    give_back = _blocking(Operations.give_back)
    extend = _blocking(Operations.extend)
    browse = _blocking(Operations.browse)
    message = _blocking(Operations.message)
    messages_by_key = _blocking(Operations.messages_by_key)
    # Expectations
    sent = _blocking(Operations.sent)
    wait_sent = _blocking(Operations.wait_sent)
    wait_delivered = _blocking(Operations.wait_delivered)
    wait_acknowledged = _blocking(Operations.wait_acknowledged)
    wait_dead = _blocking(Operations.wait_dead)
    assert_sent = _blocking(Operations.assert_sent)
    assert_delivered = _blocking(Operations.assert_delivered)
    assert_acknowledged = _blocking(Operations.assert_acknowledged)
    assert_dead = _blocking(Operations.assert_dead)
    assert_nothing_else = _blocking(Operations.assert_nothing_else)
    leaks = _blocking(Operations.leaks)
    events = _blocking(Operations.events)
    # Delayed messages
    levels = _blocking(Operations.levels)
    delayed = _blocking(Operations.delayed)
    cancel = _blocking(Operations.cancel)
    deliver = _blocking(Operations.deliver)
    # Transactions
    prepare = _blocking(Operations.prepare)
    transactions = _blocking(Operations.transactions)
    commit = _blocking(Operations.commit)
    rollback = _blocking(Operations.rollback)
    # Topics and groups
    topics = _blocking(Operations.topics)
    topic = _blocking(Operations.topic)
    create_topic = _blocking(Operations.create_topic)
    lite_topics = _blocking(Operations.lite_topics)
    put_topic = _blocking(Operations.put_topic)
    delete_topic = _blocking(Operations.delete_topic)
    groups = _blocking(Operations.groups)
    group = _blocking(Operations.group)
    put_group = _blocking(Operations.put_group)
    reset_group = _blocking(Operations.reset_group)
    delete_group = _blocking(Operations.delete_group)
    clients = _blocking(Operations.clients)
    running_info = _blocking(Operations.running_info)
    consume = _blocking(Operations.consume)
    reconnect = _blocking(Operations.reconnect)
    # Brokers of the cluster
    brokers = _blocking(Operations.brokers)
    crash_broker = _blocking(Operations.crash_broker)
    shut_down_broker = _blocking(Operations.shut_down_broker)
    promote_slave = _blocking(Operations.promote_slave)
    start_broker = _blocking(Operations.start_broker)
    wipe_broker = _blocking(Operations.wipe_broker)
    cut_off_broker = _blocking(Operations.cut_off_broker)
    reconnect_broker = _blocking(Operations.reconnect_broker)
    set_broker_read_only = _blocking(Operations.set_broker_read_only)

    # Name servers of the cluster
    name_servers = _blocking(Operations.name_servers)
    stop_name_server = _blocking(Operations.stop_name_server)
    start_name_server = _blocking(Operations.start_name_server)
    freeze_name_server = _blocking(Operations.freeze_name_server)
    hide_broker = _blocking(Operations.hide_broker)
    keep_broker = _blocking(Operations.keep_broker)
    correct_name_server = _blocking(Operations.correct_name_server)

    # Injected faults
    add_fault = _blocking(Operations.add_fault)
    faults = _blocking(Operations.faults)
    fault = _blocking(Operations.fault)
    delete_fault = _blocking(Operations.delete_fault)
    clear_faults = _blocking(Operations.clear_faults)
    # The clock and the broker
    clock = _blocking(Operations.clock)
    advance = _blocking(Operations.advance)
    move_to = _blocking(Operations.move_to)
    move_to_next = _blocking(Operations.move_to_next)
    reset = _blocking(Operations.reset)
    save_snapshot = _blocking(Operations.save_snapshot)
    restore_snapshot = _blocking(Operations.restore_snapshot)
    snapshots = _blocking(Operations.snapshots)
    damaged_snapshots = _blocking(Operations.damaged_snapshots)
    delete_snapshot = _blocking(Operations.delete_snapshot)
    snapshot_differences = _blocking(Operations.snapshot_differences)
    pack = _blocking(Operations.pack)
    info = _blocking(Operations.info)
    ready = _blocking(Operations.ready)
