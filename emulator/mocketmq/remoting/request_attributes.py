"""The attributes of a remoting request that fault rules match, and those that its log line shows."""

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Final

from mocketmq.broker.registry.clients import Clients
from mocketmq.clock import US_PER_MS
from mocketmq.errors import shorten
from mocketmq.faults.injector import RequestAttributes
from mocketmq.faults.rule import Operation
from mocketmq.hosts import peer_host
from mocketmq.message.properties import UNIQ_KEY
from mocketmq.remoting.channel import RemotingChannel
from mocketmq.remoting.wire.codes import RequestCode, ResponseCode
from mocketmq.remoting.wire.command import Command

DOOR: Final = "remoting"

_WORDS: Final[Mapping[int, Operation]] = {
    RequestCode.SEND_MESSAGE: "send",
    RequestCode.SEND_MESSAGE_V2: "send",
    RequestCode.SEND_BATCH_MESSAGE: "send",
    RequestCode.PULL_MESSAGE: "receive",
    RequestCode.LITE_PULL_MESSAGE: "receive",
    RequestCode.POP_MESSAGE: "receive",
    RequestCode.UPDATE_CONSUMER_OFFSET: "ack",
    RequestCode.ACK_MESSAGE: "ack",
    RequestCode.BATCH_ACK_MESSAGE: "ack",
    RequestCode.CONSUMER_SEND_MSG_BACK: "give-back",
    RequestCode.CHANGE_MESSAGE_INVISIBLETIME: "extend",
    RequestCode.END_TRANSACTION: "end-transaction",
    RequestCode.GET_ROUTEINFO_BY_TOPIC: "route",
    RequestCode.HEART_BEAT: "heartbeat",
}
"""Requests that fault rules also match by a name that all protocols share."""
_TOPIC: Final = ("topic", "b")
_GROUP: Final = ("consumerGroup", "producerGroup", "group", "groupName", "a")
_PROPERTIES: Final = ("i", "properties")
_SHOWN: Final = {
    **dict.fromkeys(_TOPIC, "topic"),
    **dict.fromkeys(_GROUP, "group"),
    **dict.fromkeys(("queueId", "e"), "queue"),
    **dict.fromkeys(("queueOffset", "offset"), "offset"),
    "commitOffset": "commit",
}
"""The ext fields that are logged, and their labels. Signatures, properties and bodies are not logged."""


def operations(codes: Iterable[int]) -> Iterable[str]:
    """All names by which fault rules can match these requests."""
    return (name for code in codes for name in _names(code))


def request_attributes(clients: Clients, channel: RemotingChannel, command: Command) -> RequestAttributes:
    """The attributes of the request that fault rules match."""
    ext = command.ext
    client_id = clients.id_at(channel) or ext.get("clientID") or ext.get("clientId")
    return RequestAttributes(
        DOOR,
        _names(command.code),
        _first(ext, _TOPIC),
        _first(ext, _GROUP),
        tuple(filter(None, (client_id, channel.remote, peer_host(channel.remote)))),
        _unique_key(ext),
        channel.share.name if channel.name_server is None else None,
    )


def request_line(remote: str, command: Command, answer: Command, took_us: int) -> str:
    """The log line: ``127.0.0.1:5000 PULL_MESSAGE topic='orders' group='g' queue='0': SUCCESS in 1.2 ms``."""
    shown = {_SHOWN[name]: value for name, value in command.ext.items() if name in _SHOWN}
    what = " ".join([_name(RequestCode, command.code), *(f"{k}={shorten(v)}" for k, v in shown.items())])
    how = "not answered" if command.is_oneway else _name(ResponseCode, answer.code)
    return f"{remote} {what}: {how} in {took_us / US_PER_MS:.1f} ms"


def _names(code: int) -> tuple[str, ...]:
    """All names of an operation, the most general first."""
    return tuple(dict.fromkeys(filter(None, (_WORDS.get(code), _name(RequestCode, code), str(code)))))


def _name(kind: type[IntEnum], code: int) -> str:
    try:
        return kind(code).name
    except ValueError:
        return str(code)


def _first(ext: Mapping[str, str], names: Iterable[str]) -> str | None:
    return next((ext[name] for name in names if name in ext), None)


def _unique_key(ext: Mapping[str, str]) -> str | None:
    """The unique key that the client assigned to the message that it sends."""
    for pair in (_first(ext, _PROPERTIES) or "").split("\x02"):
        name, _, value = pair.partition("\x01")
        if name == UNIQ_KEY:
            return value
    return None
