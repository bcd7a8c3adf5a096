"""Policies of RocketMQ 5's users, and which of their entries applies to a request.

Of the entries that match the resource, the action and the client's address, the most specific decides:
custom entries before default ones, a name before a prefix, a longer prefix before a shorter one, one kind of
resource before all kinds, and Deny before Allow. Without a match, the request is refused.

Sources, 5.5.0: AclAuthorizationHandler, Resource, PolicyEntry, Environment, AclConverter and
AuthorizationMetadataManagerImpl. The errors use RocketMQ's words.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property, reduce
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from operator import or_
from types import NoneType
from typing import Any, Final, NamedTuple, TypeVar

from mocketmq.access.needs import Action, Need
from mocketmq.errors import AuthError

_T = TypeVar("_T")

CUSTOM: Final = "Custom"
POLICY_TYPES: Final = (CUSTOM, "Default")
ALLOW, DENY = "Allow", "Deny"
DECISIONS: Final = (ALLOW, DENY)
_ANY: Final = "Any"
_KINDS: Final = ("Unknown", _ANY, "Cluster", "Namespace", "Topic", "Group")
_ALL: Final = reduce(or_, Action)
ACTIONS: Final[Mapping[str, Action]] = {
    "All": _ALL,
    **{action.name.capitalize(): action for action in Action if action.name},
}
"""Actions by the names in policies."""

MAX_ENTRIES: Final = 200
"""Maximum number of a user's policy entries."""
MAX_SOURCES: Final = 50
"""Maximum number of source addresses of an entry."""
MAX_RESOURCE: Final = 300
"""Maximum length of a resource, in characters."""

_Network = IPv4Network | IPv6Network


class Pattern(IntEnum):
    """How an entry names resources, the most specific first."""

    LITERAL = 0
    PREFIXED = 1
    ANY = 2


class Resource(NamedTuple):
    """The resources of an entry, such as ``Topic:orders``, ``Topic:orders*``, ``Topic:*`` or ``*``."""

    kind: str
    name: str
    pattern: Pattern

    @classmethod
    def parse(cls, key: object) -> "Resource | None":
        """Parse a resource; None if ``key`` is not a resource."""
        if not isinstance(key, str) or not key.strip() or len(key) > MAX_RESOURCE:
            return None
        if key == "*":
            return cls(_ANY, "", Pattern.ANY)
        kind, _, name = key.partition(":")
        known = _named(kind, _KINDS)
        if known is None:
            return None
        if name == "*":
            return cls(known, "", Pattern.ANY)
        if name.endswith("*"):
            return cls(known, name.partition("*")[0], Pattern.PREFIXED)
        return cls(known, name, Pattern.LITERAL)

    @property
    def key(self) -> str:
        if self.kind == _ANY:
            return "*"
        return f"{self.kind}:{self.name}{'' if self.pattern is Pattern.LITERAL else '*'}"

    def matches(self, kind: str, name: str) -> bool:
        """Whether this topic, group or cluster is among the resources."""
        if self.kind == _ANY:
            return True
        if self.kind != kind:
            return False
        if self.pattern is Pattern.LITERAL:
            return name == self.name
        return name.startswith(self.name)


@dataclass(frozen=True)
class PolicyEntry:
    """Allows or denies actions, given by name, on resources to clients at some addresses."""

    resource: Resource
    actions: tuple[str, ...]
    sources: tuple[str, ...]  # empty: all addresses
    decision: str

    @cached_property
    def _mask(self) -> Action:
        return reduce(or_, (ACTIONS[name] for name in self.actions))

    @cached_property
    def _networks(self) -> Sequence[_Network]:
        return [parse_source(source) for source in self.sources]

    @property
    def precedence(self) -> tuple[bool, int, int, bool]:
        """The sort key of the entry. Of all entries that match, the one with the smallest key decides."""
        kind, name, pattern = self.resource
        return kind == _ANY, pattern, -len(name), self.decision == ALLOW

    def matches(self, need: Need, host: str) -> bool:
        """Whether the entry applies to the need of a client at this address."""
        return (
            need.actions is not None
            and bool(need.actions & self._mask)
            and self.resource.matches(need.kind, need.name)
            and (not self.sources or self._is_from(host))
        )

    def _is_from(self, host: str) -> bool:
        with suppress(ValueError):  # a client without an address
            address = ip_address(host)
            return any(address in network for network in self._networks)
        return False

    def as_json(self) -> dict[str, Any]:
        """The entry as RocketMQ shows it."""
        shown: dict[str, Any] = {"resource": self.resource.key, "actions": list(self.actions)}
        if self.sources:
            shown["sourceIps"] = list(self.sources)
        return shown | {"decision": self.decision}


class Policies(NamedTuple):
    """The entries of a user, by policy type: Custom or Default."""

    by_type: Mapping[str, Sequence[PolicyEntry]]

    def decisive(self, need: Need, host: str) -> PolicyEntry | None:
        """The entry that decides on the need of a client at this address."""
        for name in POLICY_TYPES:
            found = [each for each in self.by_type.get(name, ()) if each.matches(need, host)]
            if found:
                return min(found, key=lambda each: each.precedence)
        return None

    def updated(self, others: "Policies") -> "Policies":
        """Return these policies with further entries. An entry replaces an earlier one for the same resource.

        Raises AuthError if there are too many.
        """
        by_type = dict(self.by_type)
        for name, entries in others.by_type.items():
            by_resource = {entry.resource: entry for entry in (*by_type.get(name, ()), *entries)}
            by_type[name] = tuple(by_resource.values())
        count = sum(map(len, by_type.values()))
        if count > MAX_ENTRIES:
            raise AuthError(f"the user would have {count} policy entries; allowed: at most {MAX_ENTRIES}")
        return Policies(by_type)

    def without(self, policy_type: str, resource: Resource) -> "Policies":
        """Return these policies without the entry for exactly this resource."""
        kept = {
            name: tuple(each for each in entries if name != policy_type or each.resource != resource)
            for name, entries in self.by_type.items()
        }
        return Policies({name: entries for name, entries in kept.items() if entries})

    def about(self, text: str) -> "Policies":
        """Return the entries whose resources contain the text."""
        kept = {
            name: tuple(each for each in entries if text in each.resource.key)
            for name, entries in self.by_type.items()
        }
        return Policies({name: entries for name, entries in kept.items() if entries})

    def as_json(self) -> list[dict[str, Any]]:
        """The policies as RocketMQ shows them."""
        return [
            {"policyType": name, "entries": [each.as_json() for each in entries]}
            for name, entries in self.by_type.items()
        ]


NONE: Final = Policies({})


def policy_type_of(name: object) -> str:
    """The policy type with this name; Custom if there is no such type."""
    return _named(name, POLICY_TYPES) or CUSTOM


def parse_policies(policies: Iterable[Mapping[str, Any]]) -> Policies:
    """Read policies as :meth:`Policies.as_json` writes them. Raises AuthError."""
    found = NONE
    for policy in policies:
        entries = [_entry(each) for each in _listed(policy, "entries", dict)]
        if entries:
            found = found.updated(Policies({policy_type_of(policy.get("policyType")): entries}))
    if not found.by_type:
        raise AuthError("The policies is empty.")
    return found


def _entry(entry: Mapping[str, Any]) -> PolicyEntry:
    resource = Resource.parse(entry.get("resource"))
    if resource is None:
        raise AuthError("The resource is null.")
    named = [_named(name, (*ACTIONS, _ANY)) for name in _listed(entry, "actions", str)]
    if _ANY in named:
        raise AuthError("The actions can not be Any.")
    actions = tuple(dict.fromkeys(name for name in named if name))
    if not actions:
        raise AuthError("The actions is empty.")
    sources = tuple(_listed(entry, "sourceIps", str))
    if len(sources) > MAX_SOURCES:
        raise AuthError(f"the entry has {len(sources)} source IPs; allowed: at most {MAX_SOURCES}")
    for source in sources:
        if not source.strip():
            raise AuthError("The source ip is empty.")
        try:
            parse_source(source)
        except ValueError:
            raise AuthError("The source ip is invalid.") from None
    decision = _named(entry.get("decision"), DECISIONS)
    if decision is None:
        raise AuthError("The decision is null or illegal.")
    return PolicyEntry(resource, actions, sources, decision)


def _named(name: object, names: Iterable[str]) -> str | None:
    """Find ``name`` among the names, ignoring case; None if it is not there."""
    return next((each for each in names if isinstance(name, str) and each.lower() == name.lower()), None)


def parse_source(source: str) -> _Network:
    """The addresses of a source, which is one address or a range in CIDR notation. Raises ValueError."""
    if "/" in source and not source.rpartition("/")[2].isdecimal():  # ip_network also takes masks
        raise ValueError(source)
    return ip_network(source, strict=False)


def _listed(given: Mapping[str, Any], name: str, kind: type[_T]) -> Iterator[_T]:
    found, wrong = given.get(name), f"{name} is not a list of {'texts' if kind is str else 'objects'}"
    if not isinstance(found, list | tuple | NoneType):
        raise AuthError(wrong)
    for each in found or ():
        if not isinstance(each, kind):
            raise AuthError(wrong)
        yield each
