"""Users and policies: RocketMQ 5.5.0 and mocketmq decide alike, and refuse with the same code and words."""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from random import Random
from typing import Any

import pytest
import pytest_asyncio
from grpclib.exceptions import GRPCError

from mocketmq.calling.call import Credentials
from mocketmq.grpc_proxy.messages import message_class
from tests.differential.difference import Difference
from tests.differential.known import Known
from tests.differential.op import Ends, Op
from tests.differential.users import (
    ASKED,
    COMPLETE,
    GROUP,
    ROOT,
    TOPIC,
    Sides,
    administration,
    answer_to,
    entry_of,
    lacking,
    policies,
    refusal_of,
)
from tests.differential.users_known import USER_RULES
from tests.doors.grpc.test_access import requests as grpc_requests
from tests.doors.grpc.test_access import signed
from tests.doors.remoting.test_users import NEEDS
from tests.support.grpc import UNAUTHORIZED, grpc_client, touch
from tests.support.patience import HANGING_S
from tests.support.process import broker_process
from tests.upstream.jars import V5_5
from tests.upstream.process import HOST, SMALL, running_upstream

AUTHENTICATION = "org.apache.rocketmq.auth.authentication.provider"
AUTHORIZATION = "org.apache.rocketmq.auth.authorization.provider"
PROXY_AUTH = "org.apache.rocketmq.proxy.auth"
STEPS = 1_500
"""Number of requests of administration."""
USERS = 60
"""Number of users with random policies."""
OK = message_class("Status")()
_clients = itertools.count()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def theirs(jars: None, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Ends]:  # noqa: ARG001
    """Run RocketMQ 5.5.0 with users in its broker, whom its proxy asks for."""
    first = json.dumps({"username": ROOT.access_key, "password": ROOT.secret})
    inner = json.dumps({"accessKey": ROOT.access_key, "secretKey": ROOT.secret})
    common = {
        "authenticationEnabled": "true",
        "authenticationProvider": f"{AUTHENTICATION}.DefaultAuthenticationProvider",
        "authorizationEnabled": "true",
        "authorizationProvider": f"{AUTHORIZATION}.DefaultAuthorizationProvider",
        "innerClientAuthenticationCredentials": inner,
    }
    broker = {
        **common,
        "authenticationMetadataProvider": f"{AUTHENTICATION}.LocalAuthenticationMetadataProvider",
        "authorizationMetadataProvider": f"{AUTHORIZATION}.LocalAuthorizationMetadataProvider",
        "initAuthenticationUser": first,
    }
    proxy: dict[str, Any] = {
        **common,
        "authenticationMetadataProvider": f"{PROXY_AUTH}.ProxyAuthenticationMetadataProvider",
        "authorizationMetadataProvider": f"{PROXY_AUTH}.ProxyAuthorizationMetadataProvider",
        "grpcClientConsumerMinLongPollingTimeoutMillis": 100,
    }
    home = tmp_path_factory.mktemp("users") / "upstream"
    settings = {**SMALL, "brokerFastFailureEnable": "false", "recallMessageEnable": "true", **broker}
    async with running_upstream(home, V5_5, settings, proxy, account=ROOT) as upstream:
        yield Ends(HOST, upstream.namesrv_port, upstream.broker_port, upstream.grpc_port)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def ours(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Ends]:
    """Run mocketmq with a file of users."""
    file = tmp_path_factory.mktemp("users") / "users.yml"
    super_user = {"username": ROOT.access_key, "password": ROOT.secret, "userType": "Super"}
    file.write_text(json.dumps({"users": [super_user]}))
    async with broker_process("--acl", str(file), "--log-level", "error") as broker:
        await touch(broker.grpc)
        yield Ends(HOST, broker.name_server[1], broker.broker_port, int(broker.grpc.rpartition(":")[2]))
        assert not broker.stderr, broker.stderr


@pytest.fixture(scope="module")
def sides(theirs: Ends, ours: Ends) -> Sides:
    return Sides(theirs, ours, Known(USER_RULES, V5_5))


@pytest.mark.differential
@pytest.mark.asyncio(loop_scope="module")
async def test_users_and_policies_are_administered_alike(
    sides: Sides, request: pytest.FixtureRequest
) -> None:
    random = Random(request.config.option.seed)
    found: list[Difference] = []
    async with sides.signed_in(ROOT) as (theirs, ours):
        for _ in range(STEPS):
            code, ext, body = asked = administration(random)
            op = Op("change", {"code": code, "ext": ext, "body": body.decode()})
            found += sides.unexplained(op, await answer_to(theirs, asked), await answer_to(ours, asked))
    assert not found, shown(found)


@pytest.mark.differential
@pytest.mark.asyncio(loop_scope="module")
async def test_every_request_needs_the_same_policies(sides: Sides) -> None:
    found: list[Difference] = []
    for number, (code, ext, body, wanted) in enumerate(NEEDS):
        for left_out in (*wanted, None):
            name = f"needs-{number}-{wanted.index(left_out) if left_out else 'nothing'}"
            user = await sides.create(name, *lacking(wanted, left_out))
            op = Op("ask", {"code": code, "ext": ext, "left_out": left_out})
            async with sides.signed_in(user) as (theirs, ours):
                asked = code, {**COMPLETE, **ext}, body
                found += sides.unexplained(op, await refusal_of(theirs, asked), await refusal_of(ours, asked))
    assert not found, shown(found)


@pytest.mark.differential
@pytest.mark.asyncio(loop_scope="module")
async def test_policies_decide_alike(sides: Sides, request: pytest.FixtureRequest) -> None:
    random = Random(request.config.option.seed)
    found: list[Difference] = []
    for number in range(USERS):
        more = {
            "userType": random.choice(("Normal",) * 8 + ("Super",)),
            "userStatus": random.choice(("enable",) * 8 + ("disable",)),
        }
        entries = [*policies(random)]
        user = await sides.create(f"user-{number}", *entries, **more)
        for source in ("127.0.0.1", "127.0.0.2"):
            async with sides.signed_in(user, source) as (theirs, ours):
                for asked in ASKED:
                    given = {"code": asked[0], "ext": asked[1], "source": source, "entries": entries, **more}
                    there, here = await refusal_of(theirs, asked), await refusal_of(ours, asked)
                    found += sides.unexplained(Op("ask", given), there, here)
        found += await grpc_differences(sides, signed(user.access_key), {"entries": entries, **more})
    assert not found, shown(found)


async def grpc_differences(
    sides: Sides, headers: Mapping[str, str], given: Mapping[str, Any]
) -> list[Difference]:
    """Call every RPC on both proxies, and return how their refusals differ."""
    ports = sides.theirs.grpc_port, sides.ours.grpc_port
    there, here = await asyncio.gather(*(grpc_refusals(port, headers) for port in ports))
    found: list[Difference] = []
    for rpc in there:
        op = Op("call", {"rpc": rpc, "headers": headers, **given})
        found += sides.unexplained(op, {"refusal": there[rpc]}, {"refusal": here[rpc]})
    return found


async def grpc_refusals(port: int, headers: Mapping[str, str]) -> Mapping[str, str | None]:
    """Return the words by which each RPC was refused; None if it was not."""
    client_id = f"{next(_clients)}@1@0@a"  # mocketmq lets no other user take a client id in use
    async with grpc_client(port, client_id, metadata=headers, patience_s=HANGING_S) as client:
        answers = {rpc: await client.call(rpc, **fields) for rpc, fields in grpc_requests(client).items()}
        statuses = {rpc: answer.status for rpc, answer in answers.items()}
        statuses["ReceiveMessage"], _ = await client.try_receive(GROUP, TOPIC)
        async with client.telemetry() as stream:
            statuses["Telemetry of a producer"] = (await stream.produce("others", TOPIC)).status
        statuses["Telemetry of a consumer"] = OK
        with suppress(GRPCError):  # from RocketMQ, if the group does not exist
            async with client.telemetry() as stream:
                statuses["Telemetry of a consumer"] = (await stream.consume(GROUP, TOPIC)).status
    return {rpc: status.message if status.code == UNAUTHORIZED else None for rpc, status in statuses.items()}


WRONG: Mapping[str, Credentials | None] = {
    "nobody": None,
    "an unknown user": Credentials("stranger", "secret"),
    "a wrong secret": Credentials("clerk", "wrong"),
    "a disabled user": Credentials("off", "secret-of-off"),
}


@pytest.mark.differential
@pytest.mark.asyncio(loop_scope="module")
async def test_wrong_credentials_are_refused_alike(sides: Sides) -> None:
    await sides.create("clerk", entry_of("*", ["All"]))
    await sides.create("off", entry_of("*", ["All"]), userStatus="disable")
    found: list[Difference] = []
    for who, credentials in WRONG.items():
        async with sides.signed_in(credentials) as (theirs, ours):
            for asked in ASKED:
                there, here = await refusal_of(theirs, asked), await refusal_of(ours, asked)
                assert there["refusal"] is not None
                found += sides.unexplained(Op("ask", {"code": asked[0], "who": who}), there, here)
    assert None not in (await grpc_refusals(sides.theirs.grpc_port, {})).values()
    clerk = signed("clerk")["authorization"]
    for headers in (
        {},
        signed("stranger"),
        signed("off"),
        signed("clerk") | {"authorization": f"{clerk[:-2]}00"},
        signed("clerk") | {"authorization": clerk[:-1]},
        signed("clerk") | {"authorization": clerk.replace("clerk", "root")},
        signed("clerk") | {"authorization": clerk.replace("=clerk", "=clerk/more")},
        signed("clerk") | {"authorization": clerk.replace("=clerk", "=")},
        signed("clerk") | {"authorization": "MQv2-HMAC-SHA1"},
        signed("clerk") | {"authorization": "MQv2-HMAC-SHA1 nonsense"},
        signed("clerk") | {"authorization": f"{clerk}zz"},
        {"authorization": clerk},
    ):
        found += await grpc_differences(sides, headers, {})
    assert not found, shown(found)


def shown(found: list[Difference]) -> str:
    """Return the differences, one of each kind of request."""
    kinds = {
        (each.given("code"), each.given("rpc"), str(each.theirs), str(each.ours)): each for each in found
    }
    return "\n".join(map(str, kinds.values()))
