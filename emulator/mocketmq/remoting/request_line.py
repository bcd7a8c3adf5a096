"""The log line of a request: client, request, response code and duration."""

from typing import Final

from mocketmq.clock import US_PER_MS
from mocketmq.errors import shorten
from mocketmq.remoting.wire.codes import RequestCode, ResponseCode
from mocketmq.remoting.wire.command import Command

_SHOWN: Final = {
    **{"topic": "topic", "b": "topic"},
    **dict.fromkeys(("consumerGroup", "producerGroup", "group", "groupName", "a"), "group"),
    **{
        "queueId": "queue",
        "e": "queue",
        "queueOffset": "offset",
        "offset": "offset",
        "commitOffset": "commit",
    },
}
"""Ext fields that are logged, by name. Signatures, properties and bodies are not logged."""
_REQUESTS: Final = {int(code): code.name for code in RequestCode}
_ANSWERS: Final = {int(code): code.name for code in ResponseCode}


def request_line(remote: str, command: Command, answer: Command, took_us: int) -> str:
    """``127.0.0.1:5000 PULL_MESSAGE topic='orders' group='g' queue='0': SUCCESS in 1.2 ms``."""
    shown = {_SHOWN[name]: value for name, value in command.ext.items() if name in _SHOWN}
    what = " ".join(
        [_REQUESTS.get(command.code, str(command.code)), *(f"{k}={shorten(v)}" for k, v in shown.items())]
    )
    how = "not answered" if command.is_oneway else _ANSWERS.get(answer.code, str(answer.code))
    return f"{remote} {what}: {how} in {took_us / US_PER_MS:.1f} ms"
