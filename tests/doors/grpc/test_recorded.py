"""What unmodified gRPC clients sent is read and answered again (recorded/README.md)."""

from typing import Any

import pytest
from grpclib.const import Cardinality

from mocketmq.grpc_proxy.definitions import SERVICE
from mocketmq.grpc_proxy.messages import message_class
from tests.clients.features import GRPC_CLIENTS
from tests.doors.grpc.recorded import FILES, Recorded, requests
from tests.support.grpc import GrpcClient, running_grpc
from tests.support.patience import PATIENCE_S

BASICS = {
    "QueryRoute",
    "Heartbeat",
    "SendMessage",
    "ReceiveMessage",
    "AckMessage",
    "EndTransaction",
    "Telemetry",
    "NotifyClientTermination",
}
"""What every client sends that produces, consumes and ends transactions."""
UNAUTHORIZED, INTERNAL_ERROR = 40_100, 50_000
"""Codes from the second on say that the server failed."""
GONE = {"EndTransaction", "RecallMessage"}
"""What these name is not there any more, for which the proxy has no better code."""


def message_of(one: Recorded) -> Any:
    return message_class(one.kind).FromString(one.data)


def test_every_client_was_recorded() -> None:
    assert set(FILES) == set(GRPC_CLIENTS)
    for client in FILES:
        assert {one.rpc for one in requests(client)} >= BASICS, client


@pytest.mark.parametrize("client", FILES)
def test_messages_are_the_same_when_written_and_read_again(client: str) -> None:
    for one in requests(client):
        message = message_of(one)
        assert type(message).FromString(message.SerializeToString()) == message
        assert message.ListFields() or one.rpc in ("Heartbeat", "NotifyClientTermination")


@pytest.mark.parametrize("client", FILES)
async def test_requests_are_answered_again(client: str) -> None:
    """Signatures are not bound to a clock. What was received then is unknown now."""
    async with running_grpc(access_keys={"shop": "secret"}) as (_, grpc):
        refused = 0
        for one in requests(client):
            if one.rpc != "Telemetry":
                code = await answered(grpc, one)
                assert code < INTERNAL_ERROR or one.rpc in GONE, (one, code)
                refused += code == UNAUTHORIZED
        assert refused <= 1, "the key is wrong in one request alone, on purpose"


async def answered(client: GrpcClient, one: Recorded) -> int:
    """The code of the answer to a request with the recorded headers, which is not kept waiting."""
    message = message_of(one)
    if one.rpc == "ReceiveMessage":
        message.long_polling_timeout.Clear()
        message.long_polling_timeout.SetInParent()  # without it, it would wait
    kind = Cardinality.UNARY_STREAM if one.rpc == "ReceiveMessage" else Cardinality.UNARY_UNARY
    reply = message_class(f"{one.rpc}Response")
    path = f"/{SERVICE}/{one.rpc}"
    headers = {name: value for name, value in one.headers.items() if value}  # grpclib sends no empty ones
    async with client.channel.request(
        path, kind, type(message), reply, timeout=PATIENCE_S, metadata=headers
    ) as call:
        await call.send_message(message, end=True)
        first = await call.recv_message()
        assert first is not None
        while kind is Cardinality.UNARY_STREAM and await call.recv_message() is not None:
            pass
    return int(first.status.code)
