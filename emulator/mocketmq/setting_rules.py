"""Rules for the values of settings. Each rule parses a text, and describes the allowed values in words."""

import re
from collections.abc import Callable, Mapping
from ipaddress import IPv6Address
from types import MappingProxyType
from typing import Final, Literal, NamedTuple, get_args

from mocketmq.duration import parse_duration_us
from mocketmq.message.names import (
    GROUP_NAMES,
    MAX_QUEUES,
    TOPIC_NAMES,
    check_group_name,
    check_topic_name,
    is_system_topic,
)
from mocketmq.rocketmq_versions import version_number


class Rule(NamedTuple):
    """A rule. ``allowed`` describes the values in words, and ``parse`` reads a text or refuses it.

    ``schema`` is the JSON schema of the values in the settings file.
    """

    allowed: str
    parse: Callable[[str], object]  # raises ValueError or InvalidArgumentError
    words: tuple[str, ...] = ()  # the allowed words, if there are only a few
    schema: Mapping[str, object] = MappingProxyType({"type": "string"})
    is_list: bool = False  # whether the file may have a list of texts, which are then joined by commas


def _pattern(expression: str, allowed: str) -> Rule:
    def parse(text: str) -> str:
        if not re.fullmatch(expression, text):
            raise ValueError(text)
        return text

    return Rule(allowed, parse)


def choice(literal: object) -> Rule:
    """Make a rule for the words of a ``Literal``."""
    names = get_args(literal)
    rule = _pattern("|".join(names), " or ".join(names))
    return rule._replace(words=names, schema={"enum": list(names)})


def _within(low: int, number: int, high: int) -> int:
    if not low <= number <= high:
        raise ValueError(number)
    return number


def whole_number(low: int, high: int) -> Rule:
    """Make a rule for whole numbers from ``low`` to ``high``."""
    return Rule(
        f"a whole number from {low} to {high}",
        lambda text: _within(low, int(text), high),
        schema={"type": "integer", "minimum": low, "maximum": high},
    )


def _parse_bytes(text: str) -> int:
    factor = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(text[-1:])
    return int(text[:-1]) * factor if factor else int(text)


def size(low: str, high: str) -> Rule:
    """Make a rule for sizes such as 64K; the value is in bytes."""
    return Rule(
        f"a size in bytes such as 1500, 64K, 4M or 2G, from {low} to {high}",
        lambda text: _within(_parse_bytes(low), _parse_bytes(text), _parse_bytes(high)),
        schema={"type": ["string", "integer"], "pattern": "^[0-9]+[KMG]?$", "minimum": 0},
    )


def duration(longest: str, shortest: str = "0") -> Rule:
    """Make a rule for durations such as 30s; the value is in microseconds."""
    return Rule(
        f"a duration such as 200ms, 30s or 1h30m, from {shortest} to {longest}",
        lambda text: _within(
            parse_duration_us(shortest), parse_duration_us(text), parse_duration_us(longest)
        ),
        schema={"type": "string", "pattern": "^(0|([0-9]+([.][0-9]+)?(d|h|m|s|ms|us|µs))+)$"},
    )


CrashLoss = int | Literal["unreplicated"]
"""What a crash loses: records of this many microseconds before it, or records that no slave has."""


def parse_crash_loss(text: str) -> CrashLoss:
    """Parse what a crash loses. Raises ValueError or InvalidArgumentError."""
    if text == "unreplicated":
        return "unreplicated"
    return 0 if text == "nothing" else _within(0, parse_duration_us(text, "loses"), parse_duration_us("1h"))


def _address(port: str, form: str) -> Rule:
    """Make a rule for addresses. ``port`` is the pattern for the part after the host."""
    pattern = re.compile(rf"([A-Za-z0-9_][A-Za-z0-9._-]*|\[[^\]]+\]){port}")

    def parse(text: str) -> str:
        match = pattern.fullmatch(text)
        if match is None:
            raise ValueError(text)
        host, number = match.groups()
        if host.startswith("["):
            IPv6Address(host[1:-1])
        if number is not None:
            _within(1, int(number), 65_535)
        return text

    return Rule(f"{form}, with a port from 1 to 65535; an IPv6 address in [ and ]", parse)


def _parse_clock(text: str) -> str:
    speed = re.fullmatch(r"x([0-9]+(?:\.[0-9]+)?)", text)
    if text not in ("real", "manual") and not (speed and 0 < float(speed[1]) <= 1_000_000):
        raise ValueError(text)
    return text


def _parse_keys(text: str) -> dict[str, str]:
    keys: dict[str, str] = {}
    for pair in text.split(","):
        name, _, secret = pair.strip().partition(":")
        if name in keys or not (_VISIBLE.fullmatch(name) and _VISIBLE.fullmatch(secret)):
            raise ValueError(text)
        keys[name] = secret
    return keys


def _parse_hosts(text: str) -> frozenset[str]:
    hosts = frozenset(host.strip().lower() for host in text.split(","))
    if not all(re.fullmatch(r"\*|[a-z0-9._\[\]:-]{1,253}", host) for host in hosts):
        raise ValueError(text)
    return hosts


def parse_broker_queues(text: str) -> dict[str, int | None]:
    """The number of queues by broker, from ``broker-a,broker-b=8``; None if not given. Raises ValueError."""
    queues: dict[str, int | None] = {}
    for each in text.split(","):
        name, sign, count = each.strip().partition("=")
        if not _VISIBLE.fullmatch(name) or name in queues:
            raise ValueError(text)
        queues[name] = _within(1, int(count), MAX_QUEUES) if sign else None
    return queues


def _parse_topic(text: str) -> str:
    check_topic_name(text)
    if is_system_topic(text):
        raise ValueError(text)
    return text


def _parse_group(text: str) -> str:
    check_group_name(text)
    return text


def _parse_auto_create(text: str) -> object:
    return text if text == "send" else BOOLEAN.parse(text)


_VISIBLE: Final = re.compile("[!-~]{1,256}")
TEXT: Final = _pattern("(?s).+", "any text that is not empty")
LEVELS: Final = _pattern("(?s).+", "a text of delays such as 10s, 5m, 2h or 1d, separated by single spaces")
BOOLEAN: Final = Rule(
    "true or false", lambda text: ("false", "true").index(text) == 1, schema={"type": "boolean"}
)
AUTO_CREATE: Final = Rule("true, send or false", _parse_auto_create, schema={"enum": [True, False, "send"]})
PORT: Final = whole_number(0, 65_535)
OWN_PORT: Final = whole_number(1, 65_535)
BROKER: Final = _pattern(r"[A-Za-z0-9_-]{1,64}", "1 to 64 of A-Z a-z 0-9 _ -")
MASTER_ID: Final = Rule(
    "0, which is the id of every master; slave_id sets the id of its slave",
    lambda text: _within(0, int(text), 0),
    schema={"const": 0},
)
SLAVE_ID: Final = whole_number(1, (1 << 31) - 1)
ZERO: Final = Rule(
    "0, which picks free ports; --http-port (http_port) sets the port of HTTP",
    lambda text: _within(0, int(text), 0),
    schema={"const": 0},
)
QUEUES: Final = whole_number(1, MAX_QUEUES)
BROKER_QUEUES: Final = Rule(
    f"names of brokers, each once; name=N for N queues there, N from 1 to {MAX_QUEUES}",
    parse_broker_queues,
    schema={
        "type": "array",
        "items": {"type": "string", "pattern": "^[^,=]+(=[0-9]{1,4})?$"},
        "minItems": 1,
        "uniqueItems": True,
    },
    is_list=True,
)
CRASH_LOSS: Final = Rule("nothing, unreplicated, or a duration such as 200ms, up to 1h", parse_crash_loss)
CLOCK: Final = Rule("real, manual, or xN with a number N above 0 and up to 1000000", _parse_clock)
TOKEN: Final = _pattern("[!-~]{1,256}", "1 to 256 visible ASCII characters")
KEYS: Final = Rule(
    "id:secret pairs of visible ASCII characters, separated by commas, each id once", _parse_keys
)
SECURITY_TOKENS: Final = Rule(
    "id:token pairs of visible ASCII characters, separated by commas, each id once", _parse_keys
)
ADDRESS: Final = _address(":([0-9]+)", "host:port")
HOST: Final = _address("(?::([0-9]+))?", "host or host:port")
HOSTS: Final = Rule("hosts separated by commas, each a name, host:port or *", _parse_hosts)
ENDPOINT: Final = _pattern(
    r"https?://[^/\s?#@]+(/[^\s?#]*)?",
    "a URL such as http://localhost:4318, with http or https, and no query",
)
VERSION: Final = Rule("a release of RocketMQ from 4.0.0 to 5.9.9", version_number)
TOPIC: Final = Rule(f"{TOPIC_NAMES}; not the name of a system topic", _parse_topic)
GROUP: Final = Rule(GROUP_NAMES, _parse_group)
