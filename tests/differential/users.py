"""RocketMQ 5.5.0 and mocketmq with the same users, and random users, policies and requests for them."""

import json
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from random import Random
from typing import Any, Final, NamedTuple

from mocketmq.calling.call import Credentials
from mocketmq.remoting.wire.codes import RequestCode
from tests.differential.difference import Difference, differences
from tests.differential.known import Known
from tests.differential.op import Ends, Op, Seen
from tests.differential.topics import ONE_QUEUE
from tests.doors.remoting.producing import V2, header
from tests.doors.remoting.test_access import beat
from tests.support.remoting import RemotingClient, connected
from tests.upstream.process import HOST

ROOT: Final = Credentials("root", "secret-of-root")
NO_PERMISSION: Final = 16
ACTIONS: Final = ("Pub", "Sub", "Create", "Update", "Delete", "Get", "List")

COMPLETE: Final[Mapping[str, str]] = {
    **ONE_QUEUE,
    **dict.fromkeys(("queueId", "queueOffset", "offset", "commitOffset", "beginTimestamp", "timestamp"), "0"),
    **dict.fromkeys(
        ("sysFlag", "subVersion", "suspendTimeoutMillis", "pollTime", "initMode", "bornTime"), "0"
    ),
    **dict.fromkeys(("maxMsgNums", "maxNum", "endTimestamp", "index", "count", "invisibleTime"), "1"),
    **dict.fromkeys(("tranStateTableOffset", "commitLogOffset", "delayLevel"), "0"),
    "commitOrRollback": "8",
    **dict.fromkeys(("clientID", "clientId", "key", "extraInfo", "recallHandle", "originMsgId"), "x"),
    **dict.fromkeys(("statsName", "statsKey", "msgId", "brokerName", "producerGroup", "namespace"), "x"),
    **dict.fromkeys(("isForce", "force"), "false"),
}
"""Fields that headers require, without which 5.5.0 does not come to a decision."""

Request = tuple[int, Mapping[str, str], bytes]
"""Code, ext fields and body."""


class Sides(NamedTuple):
    """Both brokers, and the differences between them that are known."""

    theirs: Ends
    ours: Ends
    known: Known

    def unexplained(self, op: Op, theirs: Seen, ours: Seen) -> list[Difference]:
        """Return the differences that no rule explains."""
        return [each for each in differences(op, theirs, ours) if not self.known.explains(each)]

    @asynccontextmanager
    async def signed_in(
        self, account: Credentials | None, source: str | None = None
    ) -> AsyncIterator[tuple[RemotingClient, RemotingClient]]:
        """Connect a client to both brokers, from this address."""
        async with (
            connected(HOST, self.theirs.broker_port, account, source=source) as theirs,
            connected(HOST, self.ours.broker_port, account, source=source) as ours,
        ):
            yield theirs, ours

    async def create(self, name: str, *entries: Mapping[str, Any], **more: str) -> Credentials:
        """Create a user with these policy entries, each of which may name its policy type."""
        made = Credentials(name, f"secret-of-{name}")
        subject = f"User:{name}"
        async with self.signed_in(ROOT) as roots:
            for root in roots:
                user = json.dumps({"password": made.secret, **more}).encode()
                await root.ok(RequestCode.AUTH_CREATE_USER, {"username": name}, user)
                for entry in entries:
                    policies = [{"policyType": entry.get("policyType"), "entries": [entry]}]
                    acl = json.dumps({"subject": subject, "policies": policies}).encode()
                    await root.ok(RequestCode.AUTH_CREATE_ACL, {"subject": subject}, acl)
        return made


async def answer_to(client: RemotingClient, request: Request) -> Seen:
    """Return code, remark and body of an answer."""
    answer = await client.call(*request)
    return {"code": answer.code, "remark": answer.remark, "body": json.loads(answer.body or "null")}


async def refusal_of(client: RemotingClient, request: Request) -> Seen:
    """Return the words by which a request was refused; None if it was not."""
    try:
        answer = await client.call(*request)
    except TimeoutError:  # RocketMQ answers some requests about things that do not exist never
        return {"refusal": None}
    return {"refusal": answer.remark if answer.code == NO_PERMISSION else None}


def entry_of(resource: str, actions: Iterable[str], decision: str = "Allow", **more: Any) -> dict[str, Any]:
    """Make a policy entry."""
    return {"resource": resource, "actions": list(actions), "decision": decision, **more}


# Administration

_NAMES: Final = ("ann", "bob", "carl", "", " ")
_RESOURCES: Final = (
    *("Topic:orders", "Topic:ord*", "Topic:o*", "Topic:*", "Group:g", "Group:*", "Cluster:DefaultCluster"),
    *("*", "topic:lower", "Queue:x", "orders", "Topic:", "", " ", None, "Topic:a*b*", "Any:x", "Topic:*b"),
)
_VALID_RESOURCES: Final = _RESOURCES[:8]
_ACTIONS: Final[Sequence[Sequence[str] | None]] = (
    *(["Pub"], ["Sub", "Get"], ["All"], ["pub", "SUB"], ["Pub", "Pub"], ["Pub", "Fly"], ["Fly"]),
    *(["Any"], [], None),
)
_VALID_ACTIONS: Final = [each for each in _ACTIONS[:6] if each]
_SOURCES: Final[Sequence[Sequence[str] | None]] = (
    *(None, [], ["10.0.0.1"], ["10.0.0.0/8", "192.168.0.1"], ["fe80::1"], ["::/0"], [" "], ["here"]),
    *(["10.0.0.0/33"], ["10.0.0"], ["127.0.0.1", "127.0.0.1"], ["*"], ["10.0.0.*"], ["10.1.2.3/8"]),
)
_DECISIONS: Final = ("Allow", "Allow", "Deny", "deny", "Perhaps", "", None)
_POLICY_TYPES: Final = (None, "Custom", "Default", "default", "Odd")


def administration(random: Random) -> Request:
    """Make a request about users or policies."""
    pick = random.choice
    code = pick(range(RequestCode.AUTH_CREATE_USER, RequestCode.AUTH_LIST_ACL + 1))
    name = pick(_NAMES)
    subject = pick((f"User:{name}", f"User:{name}", f"user:{name}", name, f"Robot:{name}"))
    body: Any = None
    if code in (RequestCode.AUTH_CREATE_USER, RequestCode.AUTH_UPDATE_USER):
        body = {
            "password": pick((None, "", "p", "q")),
            "userType": pick((None, "Normal", "super", "King")),
            "userStatus": pick((None, "enable", "DISABLE", "off")),
        }
    elif code in (RequestCode.AUTH_CREATE_ACL, RequestCode.AUTH_UPDATE_ACL):
        body = {
            "subject": pick((subject, subject, None)),
            "policies": [
                {"policyType": each, "entries": [*_entries(random)]}
                for each in pick(([], [pick(_POLICY_TYPES)], [pick(_POLICY_TYPES)], ["Custom", "Default"]))
            ],
        }
    ext = {
        "username": name,
        "filter": pick(("", "a", "nobody")),
        "subject": subject,
        "resource": pick(_RESOURCES),
        "policyType": pick(_POLICY_TYPES),
        "subjectFilter": pick(("", "ann", "User:")),
        "resourceFilter": pick(("", "ord", "Group", "*")),
    }
    given = {key: value for key, value in ext.items() if value}
    return code, given, b"" if body is None else json.dumps(body).encode()


def _entries(random: Random) -> Iterator[dict[str, Any]]:
    """Make policy entries about different resources, all valid or of any kind."""
    pick, is_valid = random.choice, random.random() < 0.5
    for resource in random.sample(_VALID_RESOURCES if is_valid else _RESOURCES, pick((0, 1, 1, 2))):
        if is_valid:
            yield entry_of(str(resource), pick(_VALID_ACTIONS))
        else:
            yield {
                "resource": resource,
                "actions": pick(_ACTIONS),
                "sourceIps": pick(_SOURCES),
                "decision": pick(_DECISIONS),
            }


# Decisions

TOPIC, GROUP = "orders", "GID_billing"
_OF_USERS: Final = (
    *("Topic:orders", "Topic:ord*", "Topic:o*", "Topic:*", "Topic:others", "*"),
    *("Group:GID_billing", "Group:GID*", "Group:*", "Group:other*", "Cluster:DefaultCluster", "Cluster:*"),
)
_FROM: Final = (
    *(None, None, ["127.0.0.1"], ["127.0.0.2"], ["127.0.0.0/30"], ["10.0.0.0/8"]),
    ["10.0.0.1", "127.0.0.2/32"],
)
_BOTH: Final = {"topic": TOPIC, "group": GROUP, "consumerGroup": GROUP}
ASKED: Sequence[Request] = (
    (V2, header(topic=TOPIC), b"x"),
    (V2, header(topic="others"), b"x"),
    (V2, header(topic=f"%RETRY%{GROUP}"), b"x"),
    (RequestCode.PULL_MESSAGE, _BOTH, b""),
    (RequestCode.GET_MAX_OFFSET, _BOTH | {"queueId": "0"}, b""),
    (RequestCode.QUERY_CONSUMER_OFFSET, _BOTH | {"queueId": "0"}, b""),
    (RequestCode.UPDATE_CONSUMER_OFFSET, _BOTH | {"queueId": "0", "commitOffset": "0"}, b""),
    (RequestCode.GET_CONSUMER_LIST_BY_GROUP, _BOTH, b""),
    (RequestCode.HEART_BEAT, {}, beat(GROUP, TOPIC)),
    (RequestCode.UPDATE_AND_CREATE_TOPIC, {"topic": TOPIC, **ONE_QUEUE}, b""),
    (RequestCode.DELETE_SUBSCRIPTIONGROUP, {"groupName": GROUP}, b""),
    (RequestCode.AUTH_LIST_USER, {}, b""),
    (RequestCode.AUTH_CREATE_USER, {}, b""),
)
"""Requests that policies decide on."""


def policies(random: Random) -> Iterator[dict[str, Any]]:
    """Make a user's policy entries."""
    for resource in random.sample(_OF_USERS, random.randrange(6)):
        yield entry_of(
            resource,
            random.choice((["All"], random.sample(ACTIONS, random.randrange(1, 5)))),
            random.choice(("Allow", "Deny")),
            sourceIps=random.choice(_FROM),
            policyType=random.choice(("Custom", "Custom", "Default")),
        )


def lacking(wanted: Sequence[tuple[str, str]], left_out: tuple[str, str] | None) -> Iterator[dict[str, Any]]:
    """Make entries that allow what a request needs up to ``left_out``, and other actions from there on."""
    is_before = True
    for need in wanted:
        is_before = is_before and need != left_out
        resource, actions = need
        yield entry_of(
            resource, [actions.split("|")[-1]] if is_before else {*ACTIONS} - {*actions.split("|")}
        )
