"""Permissions of each RPC; no account may act for another's client, group or transaction."""

import hashlib
import hmac
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from mocketmq.app import Emulator
from mocketmq.grpc_proxy.access import TABLE
from mocketmq.grpc_proxy.service import UNARY
from tests.support.grpc import ROLLBACK, TRANSACTION, GrpcClient, bodies, grpc_client, running_grpc

OK, REFUSED, NO_MESSAGE, NO_HALF = 20_000, 40_100, 40_401, 50_001
DATE = "20261122T200000Z"
ACCOUNTS = """
accounts:
- accessKey: billing
  secretKey: secret-of-billing
  topicPerms: [orders=PUB|SUB]
  groupPerms: [GID_billing=SUB]
- accessKey: outsider
  secretKey: secret-of-outsider
  topicPerms: [mine=PUB|SUB]
  groupPerms: [GID_outsider=SUB]
"""
ENDPOINTS = {"scheme": 1, "addresses": [{"host": "127.0.0.1", "port": 8081}]}


def signed(key: str) -> dict[str, str]:
    secret = f"secret-of-{key}".encode()
    signature = hmac.new(secret, DATE.encode(), hashlib.sha1).hexdigest()
    value = f"MQv2-HMAC-SHA1 Credential={key}, SignedHeaders=x-mq-date-time, Signature={signature}"
    return {"authorization": value, "x-mq-date-time": DATE}


@asynccontextmanager
async def two_clients(
    tmp_path: Path, accounts: str = ACCOUNTS
) -> AsyncIterator[tuple[Emulator, GrpcClient, GrpcClient]]:
    """Run an emulator, with a client of billing and a client of the outsider."""
    path = tmp_path / "plain_acl.yml"
    path.write_text(accounts)
    async with (
        running_grpc(acl=str(path)) as (emulator, stranger),
        grpc_client(stranger.port, "billing@1@0@a", metadata=signed("billing")) as billing,
        grpc_client(stranger.port, "outsider@1@0@a", metadata=signed("outsider")) as outsider,
    ):
        yield emulator, billing, outsider


def requests(client: GrpcClient) -> dict[str, dict[str, Any]]:
    """Yield a request of each unary RPC that concerns orders or GID_billing."""
    orders, billing = {"name": "orders"}, {"name": "GID_billing"}
    settling = {"group": billing, "topic": orders, "receipt_handle": "x"}
    return {
        "QueryRoute": {"topic": orders, "endpoints": ENDPOINTS},
        "QueryAssignment": {"topic": orders, "group": billing, "endpoints": ENDPOINTS},
        "Heartbeat": {"group": billing, "client_type": 2},
        "NotifyClientTermination": {"group": billing},
        "SendMessage": {"messages": [client.message("x")]},
        "RecallMessage": {"topic": orders, "recall_handle": "x"},
        "EndTransaction": {"topic": orders, "transaction_id": "x", "resolution": 1},
        "AckMessage": {"group": billing, "topic": orders, "entries": [{"receipt_handle": "x"}]},
        "ChangeInvisibleDuration": settling | {"invisible_duration": {"seconds": 30}},
        "ForwardMessageToDeadLetterQueue": settling,
        "SyncLiteSubscription": {"group": billing, "topic": orders},
    }


def test_every_rpc_has_an_access_rule() -> None:
    assert set(TABLE) == {*UNARY, "ReceiveMessage", "Telemetry"}


@pytest.mark.parametrize("rpc", UNARY)
async def test_an_rpc_is_refused_without_its_permission(tmp_path: Path, rpc: str) -> None:
    async with two_clients(tmp_path) as (emulator, billing, outsider):
        answer = await outsider.call(rpc, **requests(outsider)[rpc])
        assert answer.status.code == REFUSED
        assert "orders" in answer.status.message or "GID_billing" in answer.status.message
        assert emulator.broker.registry.topics.find_topic("orders") is None  # nor was the topic created
        assert (await billing.call(rpc, **requests(billing)[rpc])).status.code != REFUSED


async def test_a_receive_is_refused_without_its_permissions(tmp_path: Path) -> None:
    async with two_clients(tmp_path) as (_, _, outsider):
        for group, topic in (("GID_billing", "mine"), ("GID_outsider", "orders")):
            status, _ = await outsider.try_receive(group, topic)
            assert status.code == REFUSED
        assert (await outsider.try_receive("GID_outsider", "mine"))[0].code == NO_MESSAGE


async def test_telemetry_joins_only_permitted_groups(tmp_path: Path) -> None:
    async with two_clients(tmp_path) as (emulator, billing, outsider):
        async with billing.telemetry() as member, outsider.telemetry() as stream:
            assert (await member.consume("GID_billing", "orders")).status.code == OK
            assert (await stream.consume("GID_billing", "mine")).status.code == REFUSED
            clients = emulator.broker.registry.clients
            assert clients.consumer("GID_billing", "outsider@1@0@a") is None
            assert clients.consumer("GID_billing", "billing@1@0@a") is not None
        async with outsider.telemetry() as stream:
            assert (await stream.produce("orders")).status.code == REFUSED
        async with outsider.telemetry() as stream:
            assert (await stream.produce("mine")).status.code == OK


async def test_changed_permissions_apply_to_open_streams(tmp_path: Path) -> None:
    async with two_clients(tmp_path) as (_, billing, _):
        async with billing.telemetry() as member:
            assert (await member.consume("GID_billing", "orders")).status.code == OK
            (tmp_path / "plain_acl.yml").write_text(ACCOUNTS.replace("[GID_billing=SUB]", "[GID_other=SUB]"))
            assert (await member.consume("GID_billing", "orders")).status.code == REFUSED
        async with billing.telemetry() as member:
            assert (await member.consume("GID_other", "orders")).status.code == OK
            (tmp_path / "plain_acl.yml").write_text("accounts: []")
            assert (await member.consume("GID_other", "orders")).status.code == REFUSED


async def test_client_id_belongs_to_its_access_key(tmp_path: Path) -> None:
    async with two_clients(tmp_path) as (_, billing, outsider), billing.telemetry() as member:
        await member.consume("GID_billing", "orders")
        await billing.send(billing.message("in hand"))
        assert len(await billing.receive("GID_billing", "orders", auto_renew=True)) == 1
        async with grpc_client(outsider.port, "billing@1@0@a", metadata=signed("outsider")) as thief:
            answer = await thief.call("NotifyClientTermination", group={"name": "GID_outsider"})
            assert (answer.status.code, "another accessKey" in answer.status.message) == (REFUSED, True)
            async with thief.telemetry() as stream:
                assert (await stream.consume("GID_outsider", "mine")).status.code == REFUSED
        assert await billing.receive("GID_billing", "orders", auto_renew=True) == []


async def test_a_transaction_is_ended_only_under_its_own_topic(tmp_path: Path) -> None:
    async with two_clients(tmp_path) as (_, billing, outsider), billing.telemetry() as producer:
        await producer.produce("orders")
        answer = await billing.send(billing.message("half", message_type=TRANSACTION))
        transaction = answer.entries[0].transaction_id
        for resolution in (ROLLBACK, 0):
            ended = await outsider.call(
                "EndTransaction",
                topic={"name": "mine"},
                transaction_id=transaction,
                resolution=resolution,
            )
            assert ended.status.code == NO_HALF
        ended = await billing.call(
            "EndTransaction", topic={"name": "orders"}, transaction_id=transaction, resolution=1
        )
        assert ended.status.code == OK
        assert bodies(await billing.receive("GID_billing", "orders")) == ["half"]


async def test_unknown_access_key_gets_no_telemetry(tmp_path: Path) -> None:
    async with (
        two_clients(tmp_path) as (_, billing, _),
        grpc_client(billing.port, "x@1@0@a") as stranger,
        stranger.telemetry() as stream,
    ):
        assert (await stream.consume("GID_billing", "orders")).status.code == REFUSED


# Users of RocketMQ 5

USERS = """
users:
- username: billing
  password: secret-of-billing
  policies:
  - {resources: [Topic:orders], actions: [Pub, Sub], decision: Allow}
  - {resources: [Group:GID_billing], actions: [Sub], decision: Allow}
- username: outsider
  password: secret-of-outsider
  policies:
  - {resources: ['*'], actions: [All], decision: Allow}
  - {resources: [Topic:orders], actions: [All], decision: Deny}
  - {resources: [Group:GID_billing*], actions: [All], sourceIps: [127.0.0.0/8], decision: Deny}
"""


@pytest.mark.parametrize("rpc", UNARY)
async def test_policies_decide_on_every_rpc(tmp_path: Path, rpc: str) -> None:
    async with two_clients(tmp_path, USERS) as (_, billing, outsider):
        assert (await billing.call(rpc, **requests(billing)[rpc])).status.code != REFUSED
        refused = (await outsider.call(rpc, **requests(outsider)[rpc])).status
        assert refused.code == REFUSED
        lacking = {
            f"User:outsider has no permission to access {what} from 127.0.0.1, the decision is deny."
            for what in ("Topic:orders", "Group:GID_billing")
        }
        assert refused.message in lacking


async def test_policies_decide_on_receives_and_streams(tmp_path: Path) -> None:
    async with two_clients(tmp_path, USERS) as (_, billing, outsider):
        assert (await outsider.try_receive("GID_billing", "mine"))[0].code == REFUSED
        assert (await outsider.try_receive("GID_outsider", "mine"))[0].code == NO_MESSAGE
        async with outsider.telemetry() as stream:
            assert (await stream.produce("orders")).status.code == REFUSED
        async with billing.telemetry() as stream:
            assert (await stream.consume("GID_billing", "orders")).status.code == OK
            (tmp_path / "plain_acl.yml").write_text(USERS.replace("[Sub]", "[Get]"))
            assert (await stream.consume("GID_billing", "orders")).status.code == REFUSED


async def test_refusals_of_users_have_upstreams_words(tmp_path: Path) -> None:
    disabled = "- {username: off, password: secret-of-off, userStatus: disable}"
    async with two_clients(tmp_path, USERS + disabled) as (_, billing, _):
        header = signed("billing")["authorization"]
        forged = header.replace("Credential=billing", "Credential=outsider")
        anonymous = header.replace("Credential=billing", "Credential=//Rocketmq")
        for headers, words in (
            ({}, "username cannot be null."),
            (signed("billing") | {"authorization": anonymous}, "username cannot be null."),
            ({"authorization": header}, "datetime is null."),
            (signed("billing") | {"authorization": "MQv2"}, "authentication header is incorrect."),
            (
                signed("billing") | {"authorization": "MQv2 Credential"},
                "authentication keyValues length is incorrect, actual length=1.",
            ),
            (signed("billing") | {"authorization": f"{header}0"}, "create authentication context error."),
            (signed("billing") | {"authorization": f"{header}zz"}, "create authentication context error."),
            (signed("billing") | {"authorization": f"{header}00"}, "check signature failed."),
            (signed("nobody"), "User:nobody is not found."),
            (signed("off"), "User:off is disabled."),
            (signed("billing") | {"authorization": forged}, "check signature failed."),
        ):
            async with grpc_client(billing.port, "x@1@0@a", metadata=headers) as stranger:
                status = (await stranger.call("QueryRoute", **requests(stranger)["QueryRoute"])).status
                assert (status.code, status.message) == (REFUSED, words)
