"""Unmodified SDKs of RocketMQ 5, each in a program that takes the steps of an application."""

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from mocketmq import Client
from mocketmq.app import running_emulator
from mocketmq.broker.registry.groups import LITE_BIND_TOPIC, GroupConfig
from mocketmq.clock import US_PER_S
from mocketmq.settings import Settings, TopicDeclaration
from tests.clients.grpc.programs import SCENARIOS, SDKS
from tests.clients.grpc.versions import FOLDER
from tests.support.brokers import FREE_PORTS
from tests.support.grpc import touch

STEPS: Mapping[str, Sequence[str]] = {
    "normal": (
        "Send and wait",
        "A topic that does not exist yet",
        "Tags, keys and properties",
        "Simple consumer",
    ),
    "json": ("To and from the JSON API",),
    "async": ("Send with a callback",),
    "batch": ("Several messages in one answer",),
    "large": ("Large bodies",),
    "delay": ("Delivery timestamps",),
    "recall": ("Delayed messages are recalled",),
    "change": ("Invisible durations are changed",),
    "filter": ("Tag filters",),
    "sql": ("SQL92 filters",),
    "fifo": (),
    "priority": ("Priority messages",),
    "lite": ("Lite simple consumer",),
    "dead letter": ("Push consumer", "Failed messages are retried", "Dead letters"),
    "transaction": ("Commit and rollback", "Check-backs"),
    "namespace": ("Namespace",),
    "keys": ("Access keys are checked",),
    "shutdown": (),
}
"""Features that each step of a program demonstrates, in order of the steps."""
LACKS: Mapping[str, Sequence[str]] = {
    "java-5.0-grpc": ("recall", "priority", "lite", "namespace"),
    "java-5.2-grpc": ("lite",),
    "node-grpc": ("async", "lite"),
    "go-grpc": ("lite",),
    "rust-grpc": ("async", "recall", "change", "priority", "lite", "dead letter", "namespace"),
}
"""Steps for which an SDK offers no call."""
MORE = {
    "Batches": ("rust-grpc",),
    "Push consumer, in order": tuple(client for client in SDKS if client != "rust-grpc"),
    "Push consumer, in order through retries": ("python-grpc", "java-5.0-grpc", "java-5.2-grpc"),
    "TLS": ("java-5.0-grpc", "java-5.2-grpc", "go-grpc"),
}
"""Additional steps of some programs."""
RUN_S = 240.0
TOPICS = (
    TopicDeclaration(name="alarms", type="priority", read_queues=10, write_queues=10),
    TopicDeclaration(name="chats", type="lite"),
)


def steps_of(client: str) -> tuple[str, ...]:
    """Return the steps of the client's program."""
    return tuple(step for step in STEPS if step not in LACKS.get(client, ()))


def shows_features(test: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a test with the features that the steps demonstrate."""
    shown = {row: [one for one in SDKS if step in steps_of(one)] for step in STEPS for row in STEPS[step]}
    for row, clients in (shown | MORE).items():
        test = pytest.mark.feature(row, *clients)(test)
    return test


@pytest.mark.interop
@shows_features
@pytest.mark.parametrize("client", SDKS)
async def test_an_application_of_the_sdk_works(client: str, tmp_path: Path) -> None:
    program = await asyncio.to_thread(SDKS[client], FOLDER / SCENARIOS[client], tmp_path)
    settings = Settings(
        data=":memory:",
        access_keys={"shop": "secret"},
        max_long_poll_us=US_PER_S,  # consumers wait for their polls when they close
        transaction_timeout_us=US_PER_S,
        topics=TOPICS,
        **FREE_PORTS,
    )
    async with running_emulator(settings) as emulator, Client(emulator.url) as control:
        groups = emulator.broker.registry.groups
        await groups.put("g-fifo", 16, 1, GroupConfig(consume_message_orderly=True))
        await groups.put("g-retry", 1, 1)
        await groups.put("g-chats", 16, 1, GroupConfig(attributes={LITE_BIND_TOPIC: "chats"}))
        await control.send("json", "by JSON", tag="A", keys=["k"])
        assert emulator.grpc_address
        await touch(emulator.grpc_address)
        process = await asyncio.create_subprocess_exec(
            *program.command,
            emulator.grpc_address,
            env=os.environ | program.environment,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(RUN_S):
                output, errors = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        lines = output.decode().splitlines()
        done = tuple(line.removeprefix("ok ") for line in lines if line.startswith("ok "))
        assert (done, process.returncode) == (steps_of(client), 0), errors.decode()[-4_000:]
        [message_id] = [line.removeprefix("id ") for line in lines if line.startswith("id ")]
        [hello] = await control.receive("plain", group="by-json", max_messages=1)
        assert (hello["message_id"], hello["body"], hello["tag"]) == (message_id, "hello", "A")
        assert (hello["keys"], hello["properties"]["colour"]) == (["k"], "red")
        is_recalled = "recall" in done
        pending = (await control.delayed(topic="plain"))["messages"]
        assert [message["body"] for message in pending if is_recalled] == []
