"""Plays operations on one broker: connections, membership, locks, and plain requests."""

import asyncio
import json
from collections import Counter
from collections.abc import Mapping
from contextlib import AsyncExitStack
from time import monotonic
from typing import Any

from mocketmq.message.names import BROKER
from mocketmq.remoting.wire.codes import RequestCode
from mocketmq.remoting.wire.command import Command
from mocketmq.remoting.wire.record import WireRecord
from tests.differential.answers import Names, json_seen
from tests.differential.arrivals import Arrivals
from tests.differential.op import Ends, Op, Seen
from tests.differential.undecided import UndecidedProducer
from tests.doors.remoting import consuming
from tests.support.patience import PATIENCE_S
from tests.support.remoting import RemotingClient, connected

POLL_S = 0.05
"""Interval in real seconds between polls of a real broker, whose clock cannot be moved and has no events."""


class Player:
    """Plays operations on one broker, and opens connections when they are first used."""

    def __init__(self, ends: Ends, run: str, stack: AsyncExitStack) -> None:
        self._expected: Counter[str] = Counter()
        self._waiting: set[str] = set()
        self.arrivals = Arrivals()
        self._made_again: set[str] = set()
        self.names = Names(f"_{run}")
        self._ends = ends
        self._run = f"_{run}"
        self._stack = stack
        self._clients: dict[str, RemotingClient] = {}
        self._joined: dict[str, set[tuple[str, str]]] = {}  # groups that clients have joined, with their ids
        self._filters: dict[tuple[str, str], str] = {}  # of heartbeats, by group and topic
        self._records: dict[str, WireRecord] = {}
        self._halves: dict[str, Mapping[str, str]] = {}
        self._pushed: dict[str, list[Seen]] = {}
        self._producer: UndecidedProducer | None = None
        self.names.add(f"{ends.host}:{ends.broker_port}", "<broker>")
        self.names.add(f"{ends.host}:{ends.namesrv_port}", "<name server>")

    async def play(self, op: Op) -> Seen:
        """Play an operation."""
        method = getattr(self, op.name)
        seen: Seen = await method(**{name: self.real(value) for name, value in op.args.items()})
        return seen

    def real(self, value: Any) -> Any:
        """Return an operation's arguments with the names of this run."""
        if isinstance(value, str):
            return value.replace("~", self._run)
        if isinstance(value, dict):
            return {self.real(key): self.real(each) for key, each in value.items()}
        if isinstance(value, list | tuple):
            return [self.real(each) for each in value]
        return value

    async def client(self, name: str = "one") -> RemotingClient:
        """Return the connection of this name, opening it on first use."""
        if name not in self._clients:
            port = self._ends.namesrv_port if name == "ns" else self._ends.broker_port
            client = await self._stack.enter_async_context(connected(self._ends.host, port))
            self._clients[name] = client
            if name != "ns":  # its port may equal the port of a client of the broker
                self.names.add(client.address, f"<client {name}>")
        return self._clients[name]

    # ── membership ──

    async def heartbeat(
        self, client: str, client_id: str, groups: Mapping[str, Mapping[str, Any]], producers: list[str]
    ) -> Seen:
        """Send a heartbeat (34) with each group's subscriptions by topic."""
        consumers = [
            consuming.consumer(
                *(consuming.subscription(topic, **one) for topic, one in given["topics"].items()),
                group=group,
            )
            for group, given in groups.items()
        ]
        for group, given in groups.items():
            for topic, one in given["topics"].items():
                self._filters[group, topic] = one.get("expression", "*")
        self._joined.setdefault(client, set()).update((group, client_id) for group in groups)
        body = consuming.beat(*consumers, client=client_id, producers=tuple(producers))
        return self._seen(await (await self.client(client)).call(consuming.HEART_BEAT, body=body))

    async def unregister(self, client: str, **ext: str) -> Seen:
        """Unregister a client (35)."""
        return await self._plain(consuming.UNREGISTER, ext, client)

    async def leave(self, client: str) -> Seen:
        """Close a client's connection, and wait until its groups have lost it."""
        if client in self._clients:
            await self._clients.pop(client).close()
            async with connected(self._ends.host, self._ends.broker_port) as other:
                for group, client_id in self._joined.pop(client, ()):
                    await self._lost(other, group, client_id)
        return {}

    async def _lost(self, other: RemotingClient, group: str, client_id: str) -> None:
        until = monotonic() + PATIENCE_S
        while monotonic() < until:
            answer = await other.call(RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": group})
            if answer.code or client_id not in json.loads(answer.body)["consumerIdList"]:
                return
            await asyncio.sleep(POLL_S)

    async def pushes(self) -> Seen:
        """Return the requests that each client has received from the broker so far."""
        for name, client in self._clients.items():
            while not client.pushes.empty():
                self._pushed.setdefault(name, []).append(self._seen(client.pushes.get_nowait()))
        return {name: sorted(seen, key=json.dumps) for name, seen in self._pushed.items()}

    async def lock(
        self, code: int, client_id: str, group: str, queues: list[tuple[str, int]], broker: str = BROKER
    ) -> Seen:
        """Lock or unlock queues (41, 42)."""
        places = [{"brokerName": broker, "topic": topic, "queueId": number} for topic, number in queues]
        body = json.dumps({"clientId": client_id, "consumerGroup": group, "mqSet": places}).encode()
        return self._seen(await (await self.client()).call(code, body=body))

    async def check(self, group: str, client_id: str, **subscription: Any) -> Seen:
        """Check a client's filter (46)."""
        body = json.dumps(
            {
                "clientId": client_id,
                "group": group,
                "subscriptionData": consuming.subscription(**subscription),
            }
        ).encode()
        return self._seen(await (await self.client()).call(consuming.CHECK_CONFIG, body=body))

    # ── other requests ──

    async def ask(
        self,
        code: int,
        ext: Mapping[str, str],
        client: str = "one",
        body: str = "",
        is_deleted: bool = False,  # noqa: ARG002
    ) -> Seen:
        """Send any request whose answer has JSON in its body; it may be about a deleted topic."""
        return self._seen(await (await self.client(client)).call(code, ext, body.encode()))

    async def change(self, code: int, ext: Mapping[str, str], client: str = "one", body: str = "") -> Seen:
        """Like :meth:`ask`, for requests that change something."""
        if code == RequestCode.DELETE_TOPIC_IN_BROKER:
            self._made_again.add(ext["topic"])
            self._expected[ext["topic"]] = 0
        return await self.ask(code, ext, client, body)

    async def table(self, code: int, ext: Mapping[str, str], name: str, client: str = "one") -> Seen:
        """Like :meth:`ask`, without entries of other runs."""
        seen = await self.ask(code, ext, client)
        if isinstance(seen["body"], dict):
            seen["body"] = {name: _own(seen["body"].get(name))}
        return seen

    async def _plain(self, code: int, ext: Mapping[str, str], client: str = "one") -> Seen:
        return self._seen(await (await self.client(client)).call(code, ext))

    def _seen(self, answer: Command, body: Any = ...) -> Seen:
        return {
            "code": answer.code,
            "remark": None if answer.remark is None else self.names.of(answer.remark),
            "ext": {name: self.names.of(value) for name, value in answer.ext.items()},
            "body": json_seen(answer.body, self.names) if body is ... else body,
        }


def _own(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: each for key, each in value.items() if "~" in key}
    return [each for each in value or () if "~" in str(each)]
