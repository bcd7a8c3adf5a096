"""Decisions of policies, by AclAuthorizationHandler, Resource, PolicyEntry and Environment (5.5.0)."""

from typing import Any, NamedTuple

import pytest

from mocketmq.access.needs import Action, Need, Permission, to_consume, to_look_up, to_produce
from mocketmq.access.policies import MAX_ENTRIES, MAX_SOURCES, NONE, Policies, Resource, parse_policies
from mocketmq.access.users import UserAccount
from mocketmq.errors import AuthError

HERE, ELSEWHERE = "192.168.7.9", "10.0.0.1"


class Entry(NamedTuple):
    """A policy entry, and what is left out of most of them."""

    resource: str
    actions: str
    decision: str = "Allow"
    sources: tuple[str, ...] = ()
    policy_type: str | None = None

    def as_json(self) -> dict[str, Any]:
        entry = {
            "resource": self.resource,
            "actions": self.actions.split(","),
            "decision": self.decision,
            "sourceIps": list(self.sources),
        }
        return {"policyType": self.policy_type, "entries": [entry]}


def policies(*entries: Entry) -> Policies:
    return parse_policies([entry.as_json() for entry in entries])


def user(*entries: Entry, **more: Any) -> UserAccount:
    found = policies(*entries) if entries else NONE
    return UserAccount(access_key="clerk", secret="very secret", policies=found, **more)  # noqa: S106


def need(kind: Any, name: str, actions: Action) -> Need:
    return Need(kind, name, Permission.DENY, actions)


PUB, SUB, GET, UPDATE, LIST = Action.PUB, Action.SUB, Action.GET, Action.UPDATE, Action.LIST
ORDERS = need("Topic", "orders", PUB)
NO_MATCH = "no matched policies."
DENIED = "the decision is deny."

DECISIONS: list[tuple[list[Entry], Need, str, str | None]] = [
    # What an entry is about
    ([], ORDERS, HERE, NO_MATCH),
    ([Entry("Topic:orders", "Pub")], ORDERS, HERE, None),
    ([Entry("topic:orders", "pub", "ALLOW")], ORDERS, HERE, None),
    ([Entry("Topic:Orders", "Pub")], ORDERS, HERE, NO_MATCH),
    ([Entry("Topic:order", "Pub")], ORDERS, HERE, NO_MATCH),
    ([Entry("Topic:order*", "Pub")], ORDERS, HERE, None),
    ([Entry("Topic:orders*", "Pub")], ORDERS, HERE, None),
    ([Entry("Topic:orders_*", "Pub")], ORDERS, HERE, NO_MATCH),
    ([Entry("Topic:or*rs*", "Pub")], ORDERS, HERE, None),  # the prefix ends at the first asterisk
    ([Entry("Topic:*", "Pub")], ORDERS, HERE, None),
    ([Entry("*", "Pub")], ORDERS, HERE, None),
    ([Entry("Any:anything", "Pub")], ORDERS, HERE, None),
    ([Entry("Group:orders", "Pub"), Entry("Group:*", "All")], ORDERS, HERE, NO_MATCH),
    ([Entry("Cluster:*", "Update")], need("Cluster", "DefaultCluster", UPDATE), HERE, None),
    ([Entry("Cluster:other", "Update")], need("Cluster", "DefaultCluster", UPDATE), HERE, NO_MATCH),
    # Actions: one of those of the request is enough
    ([Entry("Topic:orders", "Sub,Get")], ORDERS, HERE, NO_MATCH),
    ([Entry("Topic:orders", "Sub,Pub")], ORDERS, HERE, None),
    ([Entry("Topic:orders", "All")], need("Topic", "orders", LIST), HERE, None),
    ([Entry("Topic:orders", "Get")], need("Topic", "orders", SUB | GET), HERE, None),
    ([Entry("Topic:orders", "Pub")], need("Topic", "orders", SUB | GET), HERE, NO_MATCH),
    ([Entry("Topic:orders", "Pub,nonsense")], ORDERS, HERE, None),
    # Addresses
    ([Entry("Topic:orders", "Pub", sources=(HERE,))], ORDERS, HERE, None),
    ([Entry("Topic:orders", "Pub", sources=(HERE,))], ORDERS, ELSEWHERE, NO_MATCH),
    ([Entry("Topic:orders", "Pub", sources=("10.9.9.9", "192.168.0.0/16"))], ORDERS, HERE, None),
    ([Entry("Topic:orders", "Pub", sources=("192.168.7.1/24",))], ORDERS, HERE, None),
    ([Entry("Topic:orders", "Pub", sources=("192.168.8.0/24",))], ORDERS, HERE, NO_MATCH),
    ([Entry("Topic:orders", "Pub", sources=("0.0.0.0/0",))], ORDERS, HERE, None),
    ([Entry("Topic:orders", "Pub", sources=("fe80::/16",))], ORDERS, "fe80::1", None),
    ([Entry("Topic:orders", "Pub", sources=("fe80::1",))], ORDERS, "fe80:0:0:0:0:0:0:1", None),
    ([Entry("Topic:orders", "Pub", sources=(HERE,))], ORDERS, "", NO_MATCH),
    ([Entry("Topic:orders", "Pub", "Deny", (HERE,)), Entry("*", "All")], ORDERS, HERE, DENIED),
    ([Entry("Topic:orders", "Pub", "Deny", (HERE,)), Entry("*", "All")], ORDERS, ELSEWHERE, None),
    # Which of several entries decides
    ([Entry("Topic:orders", "Pub", "Deny")], ORDERS, HERE, DENIED),
    ([Entry("Topic:orders", "Pub"), Entry("Topic:orders*", "Pub", "Deny")], ORDERS, HERE, None),
    ([Entry("Topic:orders", "Pub", "Deny"), Entry("Topic:orders*", "Pub")], ORDERS, HERE, DENIED),
    ([Entry("Topic:*", "Pub", "Deny"), Entry("Topic:o*", "Pub")], ORDERS, HERE, None),
    ([Entry("Topic:o*", "Pub", "Deny"), Entry("Topic:*", "Pub")], ORDERS, HERE, DENIED),
    ([Entry("Topic:or*", "Pub", "Deny"), Entry("Topic:ord*", "Pub")], ORDERS, HERE, None),
    ([Entry("Topic:or*", "Pub"), Entry("Topic:ord*", "Pub", "Deny")], ORDERS, HERE, DENIED),
    ([Entry("*", "Pub", "Deny"), Entry("Topic:*", "Pub")], ORDERS, HERE, None),
    ([Entry("*", "Pub"), Entry("Topic:*", "Pub", "Deny")], ORDERS, HERE, DENIED),
    ([Entry("Topic:orders", "Sub", "Deny"), Entry("Topic:*", "Pub")], ORDERS, HERE, None),
    # Custom policies come before default ones, whatever their resources
    ([Entry("*", "All"), Entry("Topic:orders", "Pub", "Deny", (), "Default")], ORDERS, HERE, None),
    ([Entry("*", "All", "Deny"), Entry("Topic:orders", "Pub", "Allow", (), "Default")], ORDERS, HERE, DENIED),
    ([Entry("Topic:o", "All", "Deny"), Entry("Topic:*", "All", "Allow", (), "default")], ORDERS, HERE, None),
    ([Entry("Topic:orders", "Pub", "Allow", (), "nonsense")], ORDERS, HERE, None),
]


@pytest.mark.parametrize(("entries", "wanted", "host", "why"), DECISIONS)
def test_the_most_specific_entry_decides(
    entries: list[Entry], wanted: Need, host: str, why: str | None
) -> None:
    for ordered in (entries, entries[::-1]):
        if why is None:
            user(*ordered).check([wanted], host)
            continue
        with pytest.raises(AuthError) as refused:
            user(*ordered).check([wanted], host)
        what = f"{wanted.kind}:{wanted.name}"
        assert str(refused.value) == f"User:clerk has no permission to access {what} from {host}, {why}"


def test_deny_wins_among_entries_that_are_equally_specific() -> None:
    """There may be two, because policies of a kind are told apart by their resources alone."""
    both = (Entry("Any:a", "Pub"), Entry("Any:b", "Pub", "Deny"))
    for ordered in (both, both[::-1]):
        with pytest.raises(AuthError, match=DENIED):
            user(*ordered).check([ORDERS], HERE)


def test_a_super_user_may_do_everything() -> None:
    user(Entry("*", "All", "Deny"), user_type="Super").check([ORDERS], HERE)


def test_a_retry_topic_needs_sub_of_its_group() -> None:
    clerk = user(Entry("Group:GID_a", "Sub"), Entry("Topic:orders", "Sub"))
    clerk.check(to_consume("%RETRY%GID_a", "GID_a"), HERE)
    clerk.check(to_consume("orders", "GID_a"), HERE)
    clerk.check(to_produce("%RETRY%GID_a"), HERE)
    clerk.check(to_look_up("%RETRY%GID_a", PUB | SUB | GET), HERE)
    with pytest.raises(AuthError, match="Group:GID_b"):
        clerk.check(to_produce("%RETRY%GID_b"), HERE)


def test_traces_need_pub_of_their_topic() -> None:
    """All accounts of plain_acl.yml may send traces; users need a policy for it."""
    with pytest.raises(AuthError, match="Topic:RMQ_SYS_TRACE_TOPIC"):
        user().check(to_produce("RMQ_SYS_TRACE_TOPIC"), HERE)


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ({"resource": ""}, "The resource is null."),
        ({"resource": None}, "The resource is null."),
        ({"resource": "orders"}, "The resource is null."),
        ({"resource": "Queue:orders"}, "The resource is null."),
        ({"resource": f"Topic:{'a' * 300}"}, "The resource is null."),
        ({"actions": []}, "The actions is empty."),
        ({"actions": None}, "The actions is empty."),
        ({"actions": ["nonsense"]}, "The actions is empty."),
        ({"actions": ["Pub", "any"]}, "The actions can not be Any."),
        ({"actions": "Pub"}, "actions is not a list of texts"),
        ({"actions": [7]}, "actions is not a list of texts"),
        ({"decision": None}, "The decision is null or illegal."),
        ({"decision": "Maybe"}, "The decision is null or illegal."),
        ({"sourceIps": [" "]}, "The source ip is empty."),
        ({"sourceIps": ["localhost"]}, "The source ip is invalid."),
        ({"sourceIps": ["10.0.0.*"]}, "The source ip is invalid."),
        ({"sourceIps": ["10.0.0.0/33"]}, "The source ip is invalid."),
        ({"sourceIps": ["10.0.0.0/255.0.0.0"]}, "The source ip is invalid."),
        ({"sourceIps": ["10.0.0.1"] * (MAX_SOURCES + 1)}, f"allowed: at most {MAX_SOURCES}"),
    ],
)
def test_invalid_entries_are_refused_in_upstreams_words(entry: dict[str, Any], why: str) -> None:
    """AuthorizationMetadataManagerImpl.validate, 5.5.0; the limits and the types of values are ours."""
    good = {"resource": "Topic:orders", "actions": ["Pub"], "decision": "Allow"}
    parse_policies([{"entries": [good]}])
    with pytest.raises(AuthError, match=why.replace(".", r"\.")):
        parse_policies([{"entries": [good | entry]}])


def test_policies_without_entries_are_refused() -> None:
    bodies: list[list[dict[str, Any]]] = [[], [{}], [{"policyType": "Custom", "entries": []}]]
    for body in bodies:
        with pytest.raises(AuthError, match=r"The policies is empty\."):
            parse_policies(body)


def test_an_entry_replaces_one_about_the_same_resource() -> None:
    before = policies(
        Entry("Topic:a", "Pub"), Entry("Topic:a*", "Sub"), Entry("Topic:a", "Get", "Deny", (), "Default")
    )
    after = before.updated(policies(Entry("topic:a", "Get,Sub", "Deny", (HERE,)), Entry("Group:b", "Sub")))
    assert after.as_json() == [
        {
            "policyType": "Custom",
            "entries": [
                {"resource": "Topic:a", "actions": ["Get", "Sub"], "sourceIps": [HERE], "decision": "Deny"},
                {"resource": "Topic:a*", "actions": ["Sub"], "decision": "Allow"},
                {"resource": "Group:b", "actions": ["Sub"], "decision": "Allow"},
            ],
        },
        {
            "policyType": "Default",
            "entries": [{"resource": "Topic:a", "actions": ["Get"], "decision": "Deny"}],
        },
    ]
    assert parse_policies(after.as_json()) == after


def test_a_user_has_a_limited_number_of_entries() -> None:
    whole = policies(*(Entry(f"Topic:t{number}", "Pub") for number in range(MAX_ENTRIES)))
    assert whole.updated(policies(Entry("Topic:t0", "Sub")))
    with pytest.raises(AuthError, match=f"{MAX_ENTRIES + 1} policy entries; allowed: at most {MAX_ENTRIES}"):
        whole.updated(policies(Entry("Topic:one more", "Pub")))


def test_deleting_and_searching_entries() -> None:
    both = policies(Entry("Topic:a", "Pub"), Entry("Topic:b*", "Sub", "Allow", (), "Default"))
    a, b = Resource.parse("Topic:a"), Resource.parse("Topic:b*")
    assert a and b
    assert both.without("Custom", b) == both
    assert both.without("Custom", a) == policies(Entry("Topic:b*", "Sub", "Allow", (), "Default"))
    assert both.without("Custom", a).without("Default", b) == NONE
    assert both.about("opic:a") == policies(Entry("Topic:a", "Pub"))
    assert both.about("x").as_json() == []


def test_a_password_is_not_shown() -> None:
    assert "very secret" not in repr(user(Entry("*", "All")))
