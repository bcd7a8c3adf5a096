"""Users and policies of RocketMQ 5: their administration, and what each request needs of a user."""

import json
import sqlite3
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, closing
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from mocketmq.broker.registry.users import MAX_USERS
from mocketmq.calling.call import Credentials
from mocketmq.remoting.requests.families import REQUESTS
from mocketmq.remoting.wire.command import Command
from mocketmq.store.database import FILE_NAME
from tests.doors.remoting.producing import BATCH, V1, V2, header
from tests.doors.remoting.test_access import acks, beat, queues, wish
from tests.support.process import forked_broker
from tests.support.remoting import Remoting, RemotingClient, connected, running_remoting

CREATE_USER, UPDATE_USER, DELETE_USER, GET_USER, LIST_USERS = range(3001, 3006)
CREATE_ACL, UPDATE_ACL, DELETE_ACL, GET_ACL, LIST_ACLS = range(3006, 3011)
NO_PERMISSION = 16

ROOT_SECRET, SECRET = "secret-of-root", "secret-of-clerk"
FILE = f"""\
users:
  - username: root
    password: {ROOT_SECRET}
    userType: Super
  - username: manager
    password: {SECRET}
    policies:
      - resources: ['Cluster:*']
        actions: [All]
        decision: Allow
"""
ROOT, CLERK = Credentials("root", ROOT_SECRET), Credentials("clerk", SECRET)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "users.yml"
    file.write_text(FILE)
    return file


@pytest_asyncio.fixture
async def guarded(file: Path) -> AsyncIterator[Remoting]:
    async with running_remoting(acl=str(file)) as remoting:
        yield remoting


def signed_in(remoting: Remoting, account: Credentials = ROOT) -> AbstractAsyncContextManager[RemotingClient]:
    return connected("127.0.0.1", remoting.server.broker_port, account)


async def create(root: RemotingClient, name: str, password: str = SECRET, **more: str) -> Command:
    return await root.call(CREATE_USER, {"username": name}, body({"password": password, **more}))


async def allow(
    root: RemotingClient, name: str, *resources: str, actions: str = "Pub,Sub", **more: Any
) -> Command:
    """Create policies as mqadmin does: an entry for each resource."""
    entry = {"actions": actions.split(","), "decision": "Allow", **more}
    entries = [{"resource": resource, **entry} for resource in resources]
    acl = {"subject": f"User:{name}", "policies": [{"entries": entries}]}
    return await root.ok(CREATE_ACL, {"subject": f"User:{name}"}, body(acl))


def body(value: Any) -> bytes:
    return json.dumps(value).encode()


def refused(answer: Command) -> str | None:
    """Why a user was refused, or None if it was not."""
    return answer.remark if answer.code == NO_PERMISSION else None


# Administration


async def test_a_user_from_its_creation_to_its_end(guarded: Remoting) -> None:
    async with signed_in(guarded) as root:
        await root.ok(CREATE_USER, {"username": "clerk"}, body({"password": SECRET}))
        shown = {"username": "clerk", "password": SECRET, "userType": "Normal", "userStatus": "enable"}
        assert json.loads((await root.ok(GET_USER, {"username": "clerk"})).body) == shown
        assert json.loads((await root.ok(LIST_USERS, {"filter": "ler"})).body) == [shown]
        assert [each["username"] for each in json.loads((await root.ok(LIST_USERS)).body)] == [
            *("clerk", "manager", "root")
        ]
        assert (await root.ok(LIST_USERS, {"filter": "nobody"})).body == b""

        await root.ok(UPDATE_USER, {"username": "clerk"}, body({"userStatus": "DISABLE"}))
        async with signed_in(guarded, CLERK) as clerk:
            assert refused(await clerk.call(V2, header())) == "User:clerk is disabled."
        change = {"password": "another", "userType": "super", "userStatus": "enable"}
        await root.ok(UPDATE_USER, {"username": "clerk"}, body(change))
        async with signed_in(guarded, CLERK) as clerk:
            assert refused(await clerk.call(V2, header())) == "check signature failed."
        async with signed_in(guarded, Credentials("clerk", "another")) as clerk:
            await clerk.ok(V2, header(topic="anything"), b"x")

        await root.ok(DELETE_USER, {"username": "clerk"})
        await root.ok(DELETE_USER, {"username": "clerk"})
        assert (await root.ok(GET_USER, {"username": "clerk"})).body == b""
        async with signed_in(guarded, CLERK) as clerk:
            assert refused(await clerk.call(V2, header())) == "User:clerk is not found."


async def test_policies_from_their_creation_to_their_end(guarded: Remoting) -> None:
    subject = {"subject": "User:clerk"}
    async with signed_in(guarded) as root:
        await create(root, "clerk")
        assert (await root.ok(GET_ACL, subject)).body == b""
        await allow(root, "clerk", "Topic:orders", "Group:GID_*")
        change = {"resource": "Topic:orders", "actions": ["Sub"], "sourceIps": ["10.0.0.0/8"]}
        entries = [change | {"decision": "Deny"}]
        await root.ok(UPDATE_ACL, subject, body({"policies": [{"policyType": "CUSTOM", "entries": entries}]}))
        defaults = [{"resource": "*", "actions": ["Get"], "decision": "Allow"}]
        await root.ok(
            CREATE_ACL, subject, body({"policies": [{"policyType": "Default", "entries": defaults}]})
        )
        custom = [
            change | {"decision": "Deny"},
            {"resource": "Group:GID_*", "actions": ["Pub", "Sub"], "decision": "Allow"},
        ]
        policies = [
            {"policyType": "Custom", "entries": custom},
            {"policyType": "Default", "entries": defaults},
        ]
        whole = {"subject": "User:clerk", "policies": policies}
        assert json.loads((await root.ok(GET_ACL, subject)).body) == whole
        found = json.loads((await root.ok(LIST_ACLS)).body)
        assert [each["subject"] for each in found] == ["User:clerk", "User:manager"]
        for filters, resources in (
            ({"subjectFilter": "clerk", "resourceFilter": "GID"}, ["Group:GID_*"]),
            ({"subjectFilter": "clerk"}, ["Topic:orders", "Group:GID_*", "*"]),
        ):
            [found] = json.loads((await root.ok(LIST_ACLS, filters)).body)
            assert [one["resource"] for each in found["policies"] for one in each["entries"]] == resources
        assert (await root.ok(LIST_ACLS, {"resourceFilter": "nothing"})).body == b""

        await root.ok(DELETE_ACL, subject | {"resource": "Group:GID_*"})
        await root.ok(DELETE_ACL, subject | {"resource": "*", "policyType": "default"})
        left = json.loads((await root.ok(GET_ACL, subject)).body)["policies"]
        assert left == [{"policyType": "Custom", "entries": custom[:1]}]
        await root.ok(DELETE_ACL, subject)
        assert refused(await root.call(DELETE_ACL, subject)) == "The acl is not exist."


async def test_deleting_a_user_deletes_its_policies(guarded: Remoting) -> None:
    async with signed_in(guarded) as root:
        await create(root, "clerk")
        await allow(root, "clerk", "*")
        await root.ok(DELETE_USER, {"username": "clerk"})
        await create(root, "clerk")
        assert (await root.ok(GET_ACL, {"subject": "User:clerk"})).body == b""


ENTRY = {"resource": "Topic:orders", "actions": ["Pub"], "decision": "Allow"}
POLICIES = {"policies": [{"entries": [ENTRY]}]}

NEW, NAMED = {"username": "new"}, {"password": "x"}

REFUSALS: list[tuple[int, Mapping[str, str], Any, int, str]] = [
    (CREATE_USER, {}, NAMED, 29, "The username is blank"),
    (CREATE_USER, {"username": " "}, NAMED, 16, "username can not be blank"),
    (CREATE_USER, NEW, {}, 16, "password can not be blank"),
    (CREATE_USER, NEW, {"password": " "}, 16, "password can not be blank"),
    (CREATE_USER, {"username": "clerk"}, NAMED, 16, "The user is existed"),
    (CREATE_USER, {"username": "clerk"}, {}, 16, "password can not be blank"),
    (CREATE_USER, {"username": "root"}, NAMED, 16, "The user is existed"),
    (CREATE_USER, {"username": "n" * 256}, NAMED, 16, "the username has 256 characters; allowed:"),
    (CREATE_USER, NEW, {"password": "x" * 256}, 16, "the password has 256 characters; allowed:"),
    (UPDATE_USER, {}, NAMED, 29, "The username is blank"),
    (UPDATE_USER, {"username": "nobody"}, NAMED, 16, "The user is not exist"),
    (UPDATE_USER, {"username": "root"}, NAMED, 16, "User:root is declared by the broker's setting"),
    (DELETE_USER, {"username": "root"}, None, 16, "User:root is declared by the broker's setting"),
    (DELETE_USER, {}, None, 16, "username can not be blank"),
    (GET_USER, {}, None, 29, "The username is blank"),
    (GET_USER, {"username": " "}, None, 29, "The username is blank"),
    (CREATE_ACL, {"subject": "User:clerk"}, {}, 1, "The body of acl is null"),
    (CREATE_ACL, {"subject": "User:nobody"}, POLICIES, 16, "The subject of User:nobody is not exist."),
    (CREATE_ACL, {"subject": "User:"}, POLICIES, 16, "The subject of User: is not exist."),
    (CREATE_ACL, {"subject": "Robot:clerk"}, POLICIES, 1, "the subject is no user; allowed: User:name"),
    (CREATE_ACL, {"subject": "User:root"}, POLICIES, 16, "User:root is declared by the broker's setting"),
    (CREATE_ACL, {"subject": "User:clerk"}, {"policies": [{"entries": []}]}, 16, "The policies is empty."),
    (UPDATE_ACL, {"subject": "User:clerk"}, {"policies": [{"entries": [{}]}]}, 16, "The resource is null."),
    (DELETE_ACL, {"subject": "clerk"}, None, 16, "The subject is null."),
    (DELETE_ACL, {"subject": "User:nobody"}, None, 16, "The subject is not exist."),
    (DELETE_ACL, {"subject": "User: "}, None, 16, "The subject is not exist."),
    (DELETE_ACL, {"subject": "User:clerk"}, None, 16, "The acl is not exist."),
    (GET_ACL, {}, None, 16, "The subject is null."),
    (GET_ACL, {"subject": "User:nobody"}, None, 16, "The subject is not exist."),
]  # fmt: skip
"""Requests of a super user, with the code and the beginning of the words of AdminBrokerProcessor, 5.5.0."""


async def test_refusals_of_administration(guarded: Remoting) -> None:
    async with signed_in(guarded) as root:
        await create(root, "clerk")
        for code, ext, value, answer_code, words in REFUSALS:
            answer = await root.call(code, ext, b"" if value is None else body(value))
            assert (answer.code, (answer.remark or "")[: len(words)]) == (answer_code, words), (code, ext)


async def test_only_a_super_user_changes_super_users(guarded: Remoting) -> None:
    async with signed_in(guarded) as root, signed_in(guarded, Credentials("manager", SECRET)) as manager:
        await create(root, "chief", userType="Super")
        await create(manager, "clerk")
        for code, name, value, words in (
            (CREATE_USER, "new", {"password": "x", "userType": "Super"}, "create"),
            (UPDATE_USER, "clerk", {"userType": "Super"}, "update"),
            (UPDATE_USER, "chief", {"password": "x"}, "update"),
            (DELETE_USER, "chief", {}, "update"),
        ):
            answer = await manager.call(code, {"username": name}, body(value))
            assert answer.remark == f"The super user can only be {words} by super user"
            assert answer.code == (1 if value.get("userType") else NO_PERMISSION)
        await manager.ok(DELETE_USER, {"username": "clerk"})
        await root.ok(DELETE_USER, {"username": "chief"})


async def test_the_number_of_users_is_limited(guarded: Remoting) -> None:
    async with signed_in(guarded) as root:
        [*answers] = [await create(root, f"user-{number}") for number in range(MAX_USERS)]
        assert {answer.code for answer in answers} == {0}
        assert (refused(await create(root, "clerk")) or "").startswith(
            f"the store already holds {MAX_USERS} users"
        )
        await root.ok(DELETE_USER, {"username": "user-0"})
        assert (await create(root, "clerk")).code == 0


@pytest.mark.parametrize("settings", [{}, {"access_keys": {"root": ROOT_SECRET}}])
async def test_users_need_a_file_of_users(settings: Mapping[str, Any]) -> None:
    async with running_remoting(**settings) as remoting, signed_in(remoting) as root:
        answer = await create(root, "clerk")
        assert (answer.code, "start the broker with --acl" in (answer.remark or "")) == (1, True)
        assert (await root.call(LIST_USERS)).code == 1


async def test_access_keys_are_super_users(file: Path) -> None:
    async with (
        running_remoting(acl=str(file), access_keys={"ak": "sk"}) as remoting,
        signed_in(remoting, Credentials("ak", "sk")) as owner,
    ):
        assert (await create(owner, "chief", userType="Super")).code == 0
        assert refused(await create(owner, "ak")) == "The user is existed"
        assert (await owner.ok(GET_USER, {"username": "ak"})).body == b""
        await owner.ok(V2, header(topic="anything"), b"x")


async def test_a_restart_keeps_users(file: Path, tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    async with running_remoting(acl=str(file), data=data) as remoting, signed_in(remoting) as root:
        await create(root, "clerk")
        await create(root, "gone")
        await allow(root, "clerk", "Topic:orders")
        await root.ok(DELETE_USER, {"username": "gone"})
    async with running_remoting(acl=str(file), data=data) as remoting:
        async with signed_in(remoting, CLERK) as clerk:
            await clerk.ok(V2, header(topic="orders"), b"x")
            assert refused(await clerk.call(V2, header(topic="others"))) is not None
        async with signed_in(remoting) as root:
            assert b"gone" not in (await root.ok(LIST_USERS)).body


def write(file: Path, text: str) -> None:
    file.write_text(text)


async def test_a_user_of_the_file_is_changed_in_the_file(guarded: Remoting, file: Path) -> None:
    manager = Credentials("manager", SECRET)
    async with signed_in(guarded, manager) as client:
        assert refused(await client.call(V2, header(topic="orders"))) is not None
        write(file, FILE.replace("'Cluster:*'", "'Topic:orders'"))
        await client.ok(V2, header(topic="orders"), b"x")
        assert refused(await client.call(LIST_USERS)) is not None


# What each request needs of a user


T, G, C = "Topic:t", "Group:g", "Cluster:DefaultCluster"
BOTH = {"topic": "t", "group": "g", "consumerGroup": "g"}
READS_TOPIC = (29, 30, 31, 32, 33, 202, 300, 351)
READS_GROUP = (203, 307, 343, 352)
READS_BOTH, READS_TOPIC_FIRST = (208, 345, 200_055), (223, 303, 321)
READS_CLUSTER = (204, 315, 317, 328)
PULLS, CONSUMES = (11, 361, 200_052), (309, 200_050, 200_051, 200_053, 200_054)
NOTHING = (
    *(18, 21, 25, 26, 28, 43, 45, 46, 200, 201, 225, 305, 306, 316, 318, 324, 325, 329, 401, 402, 907),
    *(5001, 200_056, 200_074, 200_075, 200_076, 200_077, 200_078, 200_079),
)
"""Requests for which 5.5.0 asks nothing of a user: they have no header, or none that names an action."""

NEEDS: list[tuple[int, Mapping[str, str], bytes, list[tuple[str, str]]]] = [
    *((code, header(code, topic="t"), b"", [(T, "Pub")]) for code in (V1, V2, BATCH)),
    *((code, header(code, topic="%RETRY%g"), b"", [(G, "Sub")]) for code in (V1, V2, BATCH)),
    *((code, BOTH, b"", [(G, "Sub"), (T, "Sub")]) for code in CONSUMES),
    *((code, BOTH, b"", [(T, "Sub"), (G, "Sub")]) for code in PULLS),
    *((code, BOTH | {"topic": "%RETRY%g"}, b"", [(G, "Sub")]) for code in (*CONSUMES, *PULLS)),
    *((code, BOTH, b"", [(T, "Get")]) for code in READS_TOPIC),
    *((code, BOTH, b"", [(G, "Get")]) for code in READS_GROUP),
    *((code, BOTH, b"", [(G, "Get"), (T, "Get")]) for code in READS_BOTH),
    *((code, BOTH, b"", [(T, "Get"), (G, "Get")]) for code in READS_TOPIC_FIRST),
    *((code, BOTH, b"", [(C, "Get")]) for code in READS_CLUSTER),
    *((code, {}, b"", [(C, "Update")]) for code in (100, 102, 205, 216, 327)),
    *((code, {}, b"", [(C, "Update")]) for code in (3001, 3002, 3003, 3006, 3007, 3008)),
    *((code, {}, b"", [(C, "Get")]) for code in (3004, 3005, 3009, 3010)),
    *((code, BOTH, b"", []) for code in NOTHING),
    (12, {"topic": "t"}, b"", [(T, "Sub|Get")]),
    (14, BOTH, b"", [(T, "Sub|Get"), (G, "Sub|Get")]),
    (15, BOTH, b"", [(T, "Sub|Update"), (G, "Sub|Update")]),
    (17, {"topic": "t"}, b"", [(T, "Create")]),
    (17, {"topic": "%RETRY%g"}, b"", [(G, "Create")]),
    (513, {"topic": "t"}, b"", [(T, "Create")]),
    (34, {}, beat("g", "t", "%RETRY%g"), [(G, "Sub"), (T, "Sub")]),
    (35, BOTH, b"", [(G, "Sub")]),
    (36, BOTH, b"", [(G, "Sub")]),
    (37, {"topic": "t"}, b"", [(T, "Pub")]),
    (37, {}, b"", []),
    (38, BOTH, b"", [(G, "Sub|Get")]),
    *((code, {}, queues("g", "t", "%RETRY%g"), [(G, "Sub"), (T, "Sub")]) for code in (41, 42)),
    (207, {"groupName": "g"}, b"", [(G, "Delete")]),
    (215, {"topic": "t"}, b"", [(T, "Delete")]),
    (222, BOTH, b"", [(G, "Update"), (T, "Update")]),
    (308, {"filterGroups": "g,h", "topic": "t"}, b"", [(G, "Get"), ("Group:h", "Get"), (T, "Get")]),
    (308, {"compareGroup": "g", "topic": "t"}, b"", [(G, "Get"), (T, "Get")]),
    (314, {"srcGroup": "other", "destGroup": "g", "topic": "t"}, b"", [(G, "Update"), (T, "Update")]),
    (370, {"topic": "t"}, b"", [(T, "Pub")]),
    (400, {}, wish("g", "t"), [(G, "Sub"), (T, "Sub")]),
    (200_151, {}, acks("g", "t"), [(G, "Sub"), (T, "Sub")]),
]  # fmt: skip
"""Requests, and the actions on resources that they need of a user, in the order in which they are checked.

Of actions separated by |, one is enough.

From DefaultAuthorizationContextBuilder.build, and from the annotations of the headers, 5.5.0. It forgot the
last two, and 361, which need what their relatives need.
"""


async def test_every_request_needs_the_policies_that_5_5_0_asks_for(guarded: Remoting) -> None:
    every = "Pub,Sub,Create,Update,Delete,Get,List"
    async with signed_in(guarded) as root, signed_in(guarded, CLERK) as clerk:
        await create(root, "clerk")
        for code, ext, content, wanted in NEEDS:
            for left_out in [*wanted, None]:
                await root.call(DELETE_ACL, {"subject": "User:clerk"})
                for resource, actions in wanted:
                    if left_out is None or wanted.index((resource, actions)) < wanted.index(left_out):
                        await allow(root, "clerk", resource, actions=actions.partition("|")[2] or actions)
                        continue
                    others = {*every.split(",")} - {*actions.split("|")}
                    await allow(root, "clerk", resource, actions=",".join(others))
                remark = (await clerk.call(code, ext, content)).remark or ""
                _, _, words = remark.partition("User:clerk has no permission to access ")
                lacking = f"{left_out[0]} from 127.0.0.1, no matched policies." if left_out else ""
                assert words == lacking, (code, left_out)
    open_ones = {code for code, request in REQUESTS.items() if request.access.is_open}
    assert {code for code, *_ in NEEDS} | open_ones == {*REQUESTS}


async def test_other_requests_need_a_user(guarded: Remoting) -> None:
    for code, request in REQUESTS.items():
        if not request.access.is_open:
            assert refused(await guarded.client.call(code)) == "username cannot be null."
    for ext, words in (
        ({"AccessKey": ""}, "username cannot be null."),
        ({"AccessKey": "nobody"}, "User:nobody is not found."),
        ({"AccessKey": "root"}, "check signature failed."),
        ({"AccessKey": "root", "Signature": "x"}, "check signature failed."),
    ):
        assert refused(await guarded.client.call(26, ext)) == words


async def test_routes_are_open_but_create_topics_only_for_those_who_may_use_them(guarded: Remoting) -> None:
    async with signed_in(guarded) as root, signed_in(guarded, CLERK) as clerk:
        await create(root, "clerk")
        assert (await clerk.call(105, {"topic": "orders"})).code == 17
        await allow(root, "clerk", "Topic:ord*", actions="Get")
        await clerk.ok(105, {"topic": "orders"})


async def test_a_policy_for_another_address_does_not_count(guarded: Remoting) -> None:
    async with signed_in(guarded) as root, signed_in(guarded, CLERK) as clerk:
        await create(root, "clerk")
        await allow(root, "clerk", "Topic:orders", sourceIps=["10.0.0.0/8"])
        assert refused(await clerk.call(V2, header(topic="orders"))) is not None
        await allow(root, "clerk", "Topic:orders", sourceIps=["10.0.0.0/8", "127.0.0.1"])
        await clerk.ok(V2, header(topic="orders"), b"x")
        await allow(root, "clerk", "Topic:*", decision="Deny")
        await clerk.ok(V2, header(topic="orders"), b"x")
        words = refused(await clerk.call(V2, header(topic="others"), b"x"))
        assert (
            words
            == "User:clerk has no permission to access Topic:others from 127.0.0.1, the decision is deny."
        )


# Secrets


async def test_passwords_appear_in_no_log_and_no_other_answer(file: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    async with (
        forked_broker("--acl", str(file), "--data", str(data), "--log-level", "debug") as process,
        connected("127.0.0.1", process.broker_port, ROOT) as root,
    ):
        answers = [
            await create(root, "clerk"),
            await create(root, "clerk"),
            await root.call(UPDATE_USER, {"username": "clerk"}, body({"password": SECRET, "userType": "x"})),
            await root.call(26),
            await root.call(GET_ACL, {"subject": "User:clerk"}),
        ]
        write(file, FILE.replace("Super", "King"))
        answers.append(await root.call(LIST_ACLS))
    for answer in answers:
        assert "secret-of" not in f"{answer.remark}{answer.ext}{answer.body!r}"
    assert "secret-of" not in process.start_line + process.stderr
    with closing(sqlite3.connect(data / FILE_NAME)) as store:
        assert store.execute("SELECT name, password FROM users").fetchall() == [("clerk", SECRET)]
