"""Tell of settings that are kept and shown, but have no effect here."""

import logging
from collections.abc import Sequence
from typing import Any, Final
from weakref import WeakKeyDictionary

from mocketmq.broker.broker import Broker
from mocketmq.errors import shorten
from mocketmq.remoting.request import RemotingCall, Response

log = logging.getLogger(__name__)

_logged: Final[WeakKeyDictionary[Broker, set[str]]] = WeakKeyDictionary()


def success(call: RemotingCall[Any], kind: str, kept: Sequence[tuple[str, str]]) -> Response:
    """Success. The remark names each kept setting and its owner, a topic or group; the log each setting once.

    ``kind`` says what the settings are: ``topic attribute``.
    """
    logged = _logged.setdefault(call.broker, set())
    for name in dict.fromkeys(name for name, _ in kept):
        what = f"the {kind} {name.lstrip('+-')}"
        if what not in logged:
            logged.add(what)
            log.info("%s is kept and shown, but has no effect here", what)
    names = ", ".join(f"{name} of {shorten(owner)}" for name, owner in kept)
    return Response(remark=f"kept, but without any effect here: {names}" if kept else None)
