"""Aliyun's client for Node, ``@aliyunmq/mq-http-sdk``, in its own process driven by ``driver.js``."""

import asyncio
import json
import shutil
import subprocess
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from tests.clients.sdk import Account, NotSettledError, Outgoing, Published, Received, RefusedError, Sdk
from tests.support.patience import HANGING_S

FOLDER = Path(__file__).parent / "node"
INSTALL_S = 900.0

_LONGEST_LINE = 1 << 24


class NodeError(Exception):
    """The client failed before or after the service answered: ``error`` as JavaScript threw it."""

    def __init__(self, error: Mapping[str, Any]) -> None:
        super().__init__(error["message"])
        self.error = error


class EndedError(Exception):
    """The client's process has ended before it answered."""


class NodeSdk(Sdk):
    """A client for Node, opened by :func:`open_node_sdk`."""

    def __init__(self, process: Process) -> None:
        self._process = process

    async def publish(self, topic: str, message: Outgoing) -> Published:
        return _published(await self.call("publish", topic=topic, message=asdict(message)))

    async def consume(
        self,
        topic: str,
        group: str,
        *,
        limit: int = 16,
        wait_s: int | None = None,
        tags: str | None = None,
        orderly: bool = False,
    ) -> list[Received]:
        how = {"limit": limit, "wait_s": wait_s, "tags": tags, "orderly": orderly}
        response = await self.call("consume", topic=topic, group=group, **how)
        return [_received(message) for message in response["body"]]

    async def acknowledge(self, topic: str, group: str, handles: Sequence[str]) -> None:
        _settled(await self.call("acknowledge", topic=topic, group=group, handles=list(handles)))

    async def publish_half(self, topic: str, group: str, message: Outgoing) -> Published:
        return _published(await self.call("publishHalf", topic=topic, group=group, message=asdict(message)))

    async def consume_half(self, topic: str, group: str) -> list[Received]:
        response = await self.call("consumeHalf", topic=topic, group=group)
        return [_received(message) for message in response["body"]]

    async def commit(self, topic: str, group: str, handle: str) -> None:
        _settled(await self.call("commit", topic=topic, group=group, handle=handle))

    async def rollback(self, topic: str, group: str, handle: str) -> None:
        _settled(await self.call("rollback", topic=topic, group=group, handle=handle))

    async def call(self, name: str, **arguments: object) -> dict[str, Any]:
        """Return the client's own response to a call of the driver. Raises RefusedError, NodeError."""
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps({"call": name, **arguments}).encode() + b"\n")
        async with asyncio.timeout(HANGING_S):
            await self._process.stdin.drain()
            line = await self._process.stdout.readline()
        if not line:
            raise EndedError
        answer: dict[str, Any] = json.loads(line)
        if error := answer.get("error"):
            if "Code" in error:
                raise RefusedError(error["Code"], error["RequestId"])
            raise NodeError(error)
        response: dict[str, Any] = answer["response"]
        return response

    async def kill(self) -> None:
        """End the client as a crash would."""
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()


@asynccontextmanager
async def open_node_sdk(account: Account) -> AsyncIterator[NodeSdk]:
    """Open a new client for the account. Its package must be installed."""
    process = await asyncio.create_subprocess_exec(
        *("node", "driver.js", *account), cwd=FOLDER, stdin=PIPE, stdout=PIPE, limit=_LONGEST_LINE
    )
    sdk = NodeSdk(process)
    try:
        yield sdk
    finally:
        await sdk.kill()


def install() -> None:
    """Install the lock file's packages into ``node_modules`` unless they are already there."""
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        pytest.skip("needs node and npm")
    lock, installed = FOLDER / "package-lock.json", FOLDER / "node_modules" / ".package-lock.json"
    if not installed.exists() or installed.stat().st_mtime < lock.stat().st_mtime:
        done = subprocess.run(
            [npm, "ci"], check=False, cwd=FOLDER, timeout=INSTALL_S, text=True, capture_output=True
        )
        if done.returncode:
            pytest.fail(f"npm ci failed:\n{done.stdout}{done.stderr}")


def _published(response: Mapping[str, Any]) -> Published:
    body = response["body"]
    return Published(body["MessageId"], body["MessageBodyMD5"], body.get("ReceiptHandle"))


def _received(message: Mapping[str, Any]) -> Received:
    return Received(
        message_id=message["MessageId"],
        body=message["MessageBody"],
        body_md5=message["MessageBodyMD5"],
        tag=message.get("MessageTag"),
        key=message.get("MessageKey"),
        start_deliver_ms=message.get("StartDeliverTime"),
        sharding_key=message.get("ShardingKey"),
        properties=message["Properties"],
        handle=message["ReceiptHandle"],
        publish_ms=int(message["PublishTime"]),
        first_consume_ms=int(message["FirstConsumeTime"]),
        next_consume_ms=int(message["NextConsumeTime"]),
        times=int(message["ConsumedTimes"]),
    )


def _settled(response: Mapping[str, Any]) -> None:
    """The client does not throw for failed handles."""
    if failed := response.get("body"):
        raise NotSettledError({one["ReceiptHandle"]: one["ErrorCode"] for one in failed})
    assert response["code"] == 204
