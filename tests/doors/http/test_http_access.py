"""Users and accounts decide over the JSON API: who must sign in, and what each route needs of a user."""

import asyncio
import base64
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from mocketmq.access.policies import ACTIONS, parse_policies
from mocketmq.client.answer import BrokerError
from mocketmq.client.asynchronous import Client
from mocketmq.client.blocking import BlockingClient
from mocketmq.errors import InvalidArgumentError
from mocketmq.hosts import is_loopback
from mocketmq.http_api.server import route_groups
from mocketmq.settings import Settings
from mocketmq.testing.async_broker import AsyncBroker
from mocketmq.testing.broker import Broker
from mocketmq.testing.failed_test import story_of
from tests.support.api import Answer, Api, running_api

SECRET, TOKEN = "secret-of:clerk/ü", "s3cret"
USERS = f"""\
users:
  - username: root
    password: {SECRET}
    userType: Super
  - username: gone
    password: {SECRET}
    userStatus: disable
"""
ACCOUNTS = f"""\
globalWhiteRemoteAddresses: []
accounts:
  - accessKey: shopkeeper
    secretKey: {SECRET}
    topicPerms: [orders=PUB|SUB, prices=SUB]
    groupPerms: [billing=SUB]
  - accessKey: operations
    secretKey: {SECRET}
    admin: true
"""
ORDERS = "/v1/topics/orders/messages"


def basic(name: str, password: str = SECRET) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "users.yml"
    file.write_text(USERS)
    return file


@pytest.fixture(autouse=True)
def _no_container(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("container", raising=False)


@pytest_asyncio.fixture
async def guarded(file: Path) -> AsyncIterator[Api]:
    async with running_api(acl=str(file)) as api:
        await api.emulator.broker.registry.users.create("clerk", SECRET, None, None)
        yield api


async def allow(api: Api, *resources: str, actions: str = "All", **more: Any) -> None:
    """Replace the clerk's policies."""
    users = api.emulator.broker.registry.users
    await users.delete("clerk")
    await users.create("clerk", SECRET, None, None)
    if resources:
        entry = {"actions": actions.split("|"), "decision": "Allow", **more}
        entries = [{"resource": resource, **entry} for resource in resources]
        await users.add_policies("clerk", parse_policies([{"entries": entries}]))


async def as_clerk(api: Api, method: str, path: str, body: Any = None) -> Answer:
    return await api.call(method, path, body, headers=basic("clerk"))


@pytest.fixture
def _elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let requests count as those of another machine."""
    monkeypatch.setattr("mocketmq.http_api.access.is_loopback", lambda _: False)


# What each route needs of a user

T, G, C = "Topic:orders", "Group:billing", "Cluster:DefaultCluster"
RECEIPTS = {"receipts": ["none"]}
CLUSTER_GET, CLUSTER_UPDATE = [(C, "Get")], [(C, "Update")]
READS = [(T, "Sub|Get")]

NEEDS: Mapping[str, tuple[str, Any, list[tuple[str, str]]]] = {
    "send": (ORDERS, {"body": "x"}, [(T, "Pub")]),
    "send_batch": (
        f"{ORDERS}/batch",
        {"messages": [{"body": "x"}], "advance": "1s"},
        [(T, "Pub"), *CLUSTER_UPDATE],
    ),
    "prepare": ("/v1/topics/orders/transactions", {"body": "x", "group": "shop"}, [(T, "Pub")]),
    "receive": ("/v1/groups/billing/receive", {"topic": "orders"}, [(G, "Sub"), (T, "Sub")]),
    "acknowledge": ("/v1/groups/billing/ack", RECEIPTS, [(G, "Sub")]),
    "give_back": ("/v1/groups/billing/give-back", RECEIPTS, [(G, "Sub")]),
    "extend": ("/v1/groups/billing/extend", {**RECEIPTS, "invisible_ms": 1}, [(G, "Sub")]),
    "browse": ("/v1/topics/orders/queues/0/messages", None, READS),
    "browse_lite_topic": ("/v1/topics/orders/lite-topics/x/messages", None, READS),
    "by_key": ("/v1/messages?key=k&topic=orders", None, READS),
    "message_states": ("/v1/message-states?topic=orders", None, READS),
    "records": ("/v1/records?topic=orders", None, READS),
    "pending": ("/v1/delayed?topic=orders", None, READS),
    "transactions": ("/v1/transactions?topic=orders", None, READS),
    "unexpected": ("/v1/unexpected?topic=orders", None, READS),
    "sent": ("/v1/topics/orders/sent", {}, READS),
    "wait": (
        "/v1/topics/orders/wait",
        {"delivered": 1, "group": "billing", "advance": "1s"},
        [(G, "Sub|Get"), *READS, *CLUSTER_UPDATE],
    ),
    "topics": ("/v1/topics", None, [("Topic:*", "List")]),
    "topic": ("/v1/topics/orders", None, [(T, "Get")]),
    "lite_topics": ("/v1/topics/orders/lite-topics", None, [(T, "Get")]),
    "put_topic": ("/v1/topics/orders", {}, [(T, "Create")]),
    "delete_topic": ("/v1/topics/orders", None, [(T, "Delete")]),
    "groups": ("/v1/groups", None, [("Group:*", "List")]),
    "group": ("/v1/groups/billing", None, [(G, "Get")]),
    "put_group": ("/v1/groups/billing", {}, [(G, "Create")]),
    "reset_group": ("/v1/groups/billing/reset", {"topic": "orders"}, [(G, "Update"), (T, "Update")]),
    "delete_group": ("/v1/groups/billing", None, [(G, "Delete")]),
    "running_info": ("/v1/clients/c/running-info?group=billing", None, [(G, "Get")]),
    "cancel_all": ("/v1/delayed?topic=orders", None, [(T, "Update")]),
    "deliver_all": ("/v1/deliveries", {"topic": "orders"}, [(T, "Update")]),
    "reset": ("/v1/reset", {"topic": "orders"}, [(T, "Update")]),
    "cancel": ("/v1/delayed/id", None, CLUSTER_UPDATE),
    "deliver": ("/v1/delayed/id/deliver", None, CLUSTER_UPDATE),
    "commit": ("/v1/transactions/id/commit", None, CLUSTER_UPDATE),
    "rollback": ("/v1/transactions/id/rollback", None, CLUSTER_UPDATE),
    "consume": ("/v1/clients/c/consume", {"group": "billing", "message_id": "id"}, CLUSTER_UPDATE),
    "reconnect": ("/v1/clients/c/reconnect", None, CLUSTER_UPDATE),
    "seed": ("/v1/seeds", {"messages": []}, CLUSTER_UPDATE),
    "save_snapshot": ("/v1/snapshots", {"name": "s"}, CLUSTER_UPDATE),
    "restore_snapshot": ("/v1/snapshots/none/restore", None, CLUSTER_UPDATE),
    "delete_snapshot": ("/v1/snapshots/none", None, CLUSTER_UPDATE),
    "snapshots": ("/v1/snapshots", None, CLUSTER_GET),
    "snapshot": ("/v1/snapshots/none", None, CLUSTER_GET),
    "snapshot_differences": ("/v1/snapshots/none/differences", None, CLUSTER_GET),
    "pack": ("/v1/pack", {}, CLUSTER_UPDATE),
    "opened_pack": ("/v1/pack", None, CLUSTER_GET),
    "advance": ("/v1/clock/advance", {"by": "1s"}, CLUSTER_UPDATE),
    "move_to": ("/v1/clock/to", {"instant_ms": 9_000_000_000_000}, CLUSTER_UPDATE),
    "move_to_next": ("/v1/clock/next", {}, CLUSTER_UPDATE),
    "crash_broker": ("/v1/brokers/broker-a/crash", None, CLUSTER_UPDATE),
    "shut_down_broker": ("/v1/brokers/broker-a/shutdown", None, CLUSTER_UPDATE),
    "promote_slave": ("/v1/brokers/broker-a/promote", None, CLUSTER_UPDATE),
    "start_broker": ("/v1/brokers/broker-a/start", None, CLUSTER_UPDATE),
    "wipe_broker": ("/v1/brokers/broker-a/wipe", None, CLUSTER_UPDATE),
    "cut_off_from_clients": ("/v1/brokers/broker-a/cut-off-from-clients", None, CLUSTER_UPDATE),
    "cut_off_from_name_servers": ("/v1/brokers/broker-a/cut-off-from-name-servers", None, CLUSTER_UPDATE),
    "reconnect_broker": ("/v1/brokers/broker-a/reconnect", None, CLUSTER_UPDATE),
    "make_read_only": ("/v1/brokers/broker-a/read-only", None, CLUSTER_UPDATE),
    "make_writable": ("/v1/brokers/broker-a/writable", None, CLUSTER_UPDATE),
    "stop_name_server": ("/v1/name-servers/1/stop", None, CLUSTER_UPDATE),
    "start_name_server": ("/v1/name-servers/1/start", None, CLUSTER_UPDATE),
    "freeze_name_server": ("/v1/name-servers/1/freeze", None, CLUSTER_UPDATE),
    "hide_broker": ("/v1/name-servers/1/hide/broker-a", None, CLUSTER_UPDATE),
    "keep_broker": ("/v1/name-servers/1/keep/broker-a", None, CLUSTER_UPDATE),
    "correct_name_server": ("/v1/name-servers/1/correct", None, CLUSTER_UPDATE),
    "name_servers": ("/v1/name-servers", None, CLUSTER_GET),
    "brokers": ("/v1/brokers", None, CLUSTER_GET),
    "add_fault": ("/v1/faults", {"do": "refuse"}, CLUSTER_UPDATE),
    "clear_faults": ("/v1/faults", None, CLUSTER_UPDATE),
    "delete_fault": ("/v1/faults/f", None, CLUSTER_UPDATE),
    "life": ("/v1/messages/id", None, CLUSTER_GET),
    "levels": ("/v1/levels", None, CLUSTER_GET),
    "first_due": ("/v1/timed", None, CLUSTER_GET),
    "events": ("/v1/events", None, CLUSTER_GET),
    "leaks": ("/v1/leaks?group=billing", None, CLUSTER_GET),
    "clients": ("/v1/clients", None, CLUSTER_GET),
    "clock": ("/v1/clock", None, CLUSTER_GET),
    "faults": ("/v1/faults", None, CLUSTER_GET),
    "fault": ("/v1/faults/f", None, CLUSTER_GET),
    "stream": ("/v1/stream", None, CLUSTER_GET),
    "metrics": ("/metrics", None, CLUSTER_GET),
    "report_state": ("/v1/reports", None, CLUSTER_GET),
    "make_report": ("/v1/reports", None, CLUSTER_GET),
    "info": ("/v1/info", None, []),
    "openapi": ("/openapi.json", None, []),
    "docs": ("/docs", None, []),
}
"""A request of each route, and the actions on resources that it needs, in the order of the checks.

Of actions separated by |, one is enough.
"""
OPEN = {"health", "readiness", "report"}
NEVER_ENDS = {"stream"}


async def test_every_route_needs_what_the_table_says(guarded: Api) -> None:
    document = await guarded.ok("GET", "/openapi.json")
    methods = {
        what["operationId"]: method.upper()
        for of_path in document["paths"].values()
        for method, what in of_path.items()
    }
    assert {*NEEDS} | OPEN == {*methods}
    every = {*ACTIONS} - {"All"}
    users = guarded.emulator.broker.registry.users
    for name, (path, body, wanted) in NEEDS.items():
        for index, (resource, actions) in enumerate(wanted):
            others = "|".join(sorted(every - {*actions.split("|")}))
            await allow(guarded, resource, actions=others)
            for earlier, enough in wanted[:index]:
                entry = {"resource": earlier, "actions": [enough.split("|")[-1]], "decision": "Allow"}
                await users.add_policies("clerk", parse_policies([{"entries": [entry]}]))
            answer = await as_clerk(guarded, methods[name], path, body)
            assert (answer.status, answer.body["detail"]) == (
                403,
                f"User:clerk has no permission to access {resource} from 127.0.0.1, no matched policies.",
            ), name
        if name in NEVER_ENDS:
            continue
        await allow(guarded)
        for resource, actions in wanted:
            entry = {"resource": resource, "actions": [actions.split("|")[0]], "decision": "Allow"}
            await users.add_policies("clerk", parse_policies([{"entries": [entry]}]))
        answer = await as_clerk(guarded, methods[name], path, body)
        assert answer.status not in (401, 403), (name, answer)


@pytest.mark.parametrize(
    ("method", "path", "resource"),
    [
        ("GET", "/v1/records", C),
        ("GET", "/v1/message-states", C),
        ("GET", "/v1/messages?key=k", C),
        ("GET", "/v1/delayed", C),
        ("DELETE", "/v1/delayed", C),
        ("POST", "/v1/deliveries", C),
        ("POST", "/v1/reset", C),
        ("POST", "/v1/topics/%RETRY%25billing/messages", G),
        ("GET", "/v1/topics/%25RETRY%25billing", G),
    ],
)
async def test_a_request_without_a_topic_is_about_the_cluster_and_a_retry_topic_about_its_group(
    guarded: Api, method: str, path: str, resource: str
) -> None:
    await allow(guarded, "Topic:*")
    path = path.replace("/%RETRY", "/%25RETRY")
    answer = await as_clerk(guarded, method, path, {"body": "x"} if path.endswith("messages") else None)
    assert answer.status == 403
    assert f"permission to access {resource} from" in answer.body["detail"]


def test_open_routes_are_those_without_secrets() -> None:
    routes = [route for group in route_groups(Settings()) for route in group.routes]
    assert {route.handler.__name__ for route in routes if route.is_open} == OPEN


# Who may send requests


async def test_a_user_with_a_policy_uses_what_it_allows(guarded: Api) -> None:
    await allow(guarded, "Topic:ord*", "Group:billing", actions="Pub|Sub")
    assert (await as_clerk(guarded, "POST", ORDERS, {"body": "hi"})).status == 201
    answer = await as_clerk(guarded, "POST", "/v1/groups/billing/receive", {"topic": "orders"})
    [message] = answer.body["messages"]
    answer = await as_clerk(guarded, "POST", "/v1/groups/billing/ack", {"receipts": [message["receipt"]]})
    assert answer.status == 200
    assert (await as_clerk(guarded, "POST", "/v1/topics/prices/messages", {"body": "x"})).status == 403
    assert "prices" not in {topic["name"] for topic in (await guarded.ok("GET", "/v1/topics"))["topics"]}


async def test_source_addresses_and_denials_count(guarded: Api) -> None:
    await allow(guarded, T, sourceIps=["10.0.0.0/8"])
    assert (await as_clerk(guarded, "POST", ORDERS, {"body": "x"})).status == 403
    await allow(guarded, T, sourceIps=["10.0.0.0/8", "127.0.0.1"])
    assert (await as_clerk(guarded, "POST", ORDERS, {"body": "x"})).status == 201
    await allow(guarded, T, decision="Deny")
    answer = await as_clerk(guarded, "POST", ORDERS, {"body": "x"})
    assert (answer.status, answer.body["type"]) == (403, "/problems/auth")
    assert answer.body["detail"].endswith("Topic:orders from 127.0.0.1, the decision is deny.")


async def test_super_users_do_everything(file: Path) -> None:
    async with running_api(acl=str(file), access_keys={"ak": "sk"}) as api:
        for headers in (basic("root"), basic("ak", "sk")):
            for method, path in (("POST", "/v1/reset"), ("GET", "/metrics"), ("PUT", "/v1/topics/t")):
                assert (await api.call(method, path, headers=headers)).status in (200, 201)


WRONG = [
    (basic("nobody"), "User:nobody is not found."),
    (basic("gone"), "User:gone is disabled."),
    (basic("root", "secret"), "check signature failed."),
    (basic(""), "username cannot be null."),
    ({"Authorization": "basic !"}, "Basic credentials are not name:password in UTF-8 and base64"),
    ({"Authorization": "Basic cm9vdA=="}, "Basic credentials are not name:password in UTF-8 and base64"),
    ({"Authorization": "Basic /zov"}, "Basic credentials are not name:password in UTF-8 and base64"),
    ({"Authorization": "Basic ü"}, "Basic credentials are not name:password in UTF-8 and base64"),
]


@pytest.mark.parametrize("token", [None, TOKEN])
async def test_wrong_credentials_are_refused_even_on_the_brokers_machine(
    file: Path, token: str | None
) -> None:
    async with running_api(acl=str(file), token=token) as api:
        for headers, words in WRONG:
            for path in ("/v1/topics", "/v1/nothing"):
                answer = await api.call("GET", path, headers=headers)
                assert (answer.status, answer.body["detail"]) == (401, words), headers
                assert answer.body["type"] == "/problems/unauthorized"


async def test_without_a_token_only_other_machines_need_credentials(
    guarded: Api, request: pytest.FixtureRequest
) -> None:
    await guarded.send()
    request.getfixturevalue("_elsewhere")
    answer = await guarded.call("POST", ORDERS, {"body": "x"})
    assert answer.status == 401
    assert answer.headers["WWW-Authenticate"] == 'Basic realm="mocketmq", charset="UTF-8"'
    assert answer.body["detail"] == (
        "credentials are required: Authorization: Basic, with a user's name and password"
    )
    answer = await guarded.call("GET", "/v1/topics", headers={"Authorization": f"Bearer {TOKEN}"})
    assert answer.status == 401
    for path in ("/healthz", "/readyz"):
        await guarded.ok("GET", path)
    assert (await guarded.call("POST", ORDERS, {"body": "x"}, headers=basic("root"))).status == 201


async def test_with_a_token_everyone_needs_the_token_or_a_user(file: Path) -> None:
    async with running_api(acl=str(file), token=TOKEN) as api:
        answer = await api.call("GET", "/v1/topics")
        assert (answer.status, answer.headers["WWW-Authenticate"]) == (401, "Bearer")
        assert answer.body["detail"] == (
            "a token is required: Authorization: Bearer <token>, or Basic, with a user's name and password"
        )
        answer = await api.call("GET", "/v1/topics", headers={"Authorization": "Bearer wrong"})
        assert (answer.status, answer.body["detail"]) == (401, "the token is wrong")
        for headers in ({"Authorization": f"bearer {TOKEN}"}, basic("root")):
            assert (await api.call("POST", "/v1/reset", headers=headers)).status == 200


@pytest.mark.usefixtures("_elsewhere")
async def test_addresses_do_not_matter_in_a_container(guarded: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("container", "oci")
    await guarded.send()
    assert (await guarded.call("POST", ORDERS, {"body": "x"}, headers=basic("clerk"))).status == 403


@pytest.mark.parametrize("settings", [{}, {"access_keys": {"ak": "sk"}}])
@pytest.mark.usefixtures("_elsewhere")
async def test_without_a_file_of_accounts_nothing_is_checked(settings: Mapping[str, Any]) -> None:
    async with running_api(**settings) as api:
        for headers in ({}, basic("nobody")):
            assert (await api.call("POST", "/v1/reset", headers=headers)).status == 200


# Accounts of a plain_acl.yml


async def test_accounts_have_their_permissions(tmp_path: Path) -> None:
    file = tmp_path / "plain_acl.yml"
    file.write_text(ACCOUNTS)
    receive = "/v1/groups/billing/receive"
    cases: list[tuple[str, str, Any, int, str]] = [
        ("POST", ORDERS, {"body": "x"}, 201, ""),
        ("POST", receive, {"topic": "orders"}, 200, ""),
        ("GET", "/v1/topics", None, 200, ""),
        ("GET", "/v1/records?topic=prices", None, 200, ""),
        ("POST", "/v1/topics/prices/messages", {"body": "x"}, 403, "No default permission for topic:prices"),
        ("POST", "/v1/groups/g/ack", RECEIPTS, 403, "No default permission for group:g"),
        ("GET", "/v1/records?topic=other", None, 403, "No default permission for topic:other"),
        *(
            (method, path, None, 403, f"Need admin permission for {method} {path}, but accessKey=shopkeeper")
            for method, path in (
                *(("GET", "/v1/records"), ("GET", "/v1/events"), ("POST", "/v1/reset")),
                *(("PUT", "/v1/topics/orders"), ("DELETE", "/v1/groups/billing")),
            )
        ),
    ]
    async with running_api(acl=str(file)) as api:
        for method, path, body, status, words in cases:
            answer = await api.call(method, path, body, headers=basic("shopkeeper"))
            assert answer.status == status, (path, answer)
            assert not words or answer.body["detail"].startswith(words)
            answer = await api.call(method, path, body, headers=basic("operations"))
            assert answer.status not in (401, 403), (path, answer)
        answer = await api.call("GET", "/v1/info", headers=basic("shopkeeper", "x"))
        assert (answer.status, answer.body["detail"]) == (
            401,
            "Check signature failed for accessKey=shopkeeper",
        )


@pytest.mark.usefixtures("_elsewhere")
async def test_addresses_that_the_file_trusts_need_no_credentials(tmp_path: Path) -> None:
    file = tmp_path / "plain_acl.yml"
    for trusted, status in (("[]", 401), ("['127.0.0.*']", 200)):
        file.write_text(ACCOUNTS.replace("[]", trusted))
        async with running_api(acl=str(file)) as api:
            assert (await api.call("POST", "/v1/reset")).status == status


# OpenAPI, secrets and clients


async def test_document_declares_the_user(guarded: Api, file: Path) -> None:
    document = await guarded.ok("GET", "/openapi.json")
    schemes = {"user": {"type": "http", "scheme": "basic"}}
    assert document["components"]["securitySchemes"] == schemes
    assert document["security"] == [{"user": []}, {}]
    responses = document["paths"]["/v1/topics/{topic}/messages"]["post"]["responses"]
    assert responses["403"]["description"].startswith("The user lacks permission. ")
    assert "401" in responses
    assert not {"401", "403"} & {*document["paths"]["/readyz"]["get"]["responses"]}
    async with running_api(acl=str(file), token=TOKEN) as api:
        document = (await api.call("GET", "/openapi.json", headers=basic("root"))).body
    assert {*document["components"]["securitySchemes"]} == {"token", "user"}
    assert document["security"] == [{"token": []}, {"user": []}]


async def test_no_answer_shows_a_password(guarded: Api, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    encoded = basic("root")["Authorization"].partition(" ")[2]
    for name, (path, body, _) in NEEDS.items():
        if name in NEVER_ENDS:
            continue
        for headers in (basic("root"), basic("clerk"), basic("root", f"{SECRET}?")):
            for method in ("GET", "POST"):
                answer = await guarded.call(method, path, body, headers=headers)
                assert not any(word in f"{answer.headers}{answer.body!r}" for word in (SECRET, encoded)), path
    assert SECRET not in caplog.text
    assert encoded not in caplog.text


QUOTED = "secret-of%3Aclerk%2F%C3%BC"


async def test_clients_sign_in_with_the_url(guarded: Api) -> None:
    await allow(guarded, T)
    host = guarded.emulator.url.removeprefix("http://")
    async with Client(f"http://clerk:{QUOTED}@{host}/") as broker:
        assert broker.url == guarded.emulator.url
        await broker.send("orders", "x")
        with pytest.raises(BrokerError, match="User:clerk has no permission to access Topic:prices"):
            await broker.send("prices", "x")
    async with Client(f"http://clerk:wrong@{host}") as broker:
        with pytest.raises(BrokerError, match="check signature failed"):
            await broker.send("orders", "x")


async def test_the_plugins_brokers_sign_in_with_the_url(file: Path) -> None:
    async with running_api(acl=str(file), token=TOKEN) as api:
        host = api.emulator.url.removeprefix("http://")
        broker = await asyncio.to_thread(Broker, f"http://root:{QUOTED}@{host}")
        broker.close()
        assert broker.login == (f"http://root:{QUOTED}@{host}", None)
        assert await AsyncBroker(broker).events() == []
        assert await asyncio.to_thread(story_of, broker) == "the broker recorded no events"


@pytest.mark.parametrize("url", [f"http://root:{SECRET}@host", "ftp://root:pw@host", "http://root:pw@"])
def test_an_invalid_url_with_a_password_is_not_shown(url: str) -> None:
    with pytest.raises(InvalidArgumentError, match=r"^url is hidden; allowed: "):
        BlockingClient(url)


def test_a_url_with_a_user_excludes_a_token() -> None:
    with pytest.raises(
        InvalidArgumentError, match=r"^token and the user in the url are both given; allowed: one"
    ):
        BlockingClient("http://root:pw@host", TOKEN)


def test_loopback_addresses() -> None:
    assert all(map(is_loopback, ("127.0.0.1", "127.9.9.9", "::1", "localhost")))
    assert not any(map(is_loopback, ("", "10.0.0.1", "0.0.0.0", "::", "host", "::ffff:10.0.0.1")))  # noqa: S104
