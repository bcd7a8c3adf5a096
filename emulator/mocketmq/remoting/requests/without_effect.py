"""Reports settings that are stored and shown, but have no effect in mocketmq."""

import logging
from collections.abc import Sequence
from typing import Any, Final
from weakref import WeakKeyDictionary

from mocketmq.broker.broker import Broker
from mocketmq.errors import shorten
from mocketmq.remoting.call import RemotingCall, Response

log = logging.getLogger(__name__)

_logged: Final[WeakKeyDictionary[Broker, set[str]]] = WeakKeyDictionary()


def success(call: RemotingCall[Any], kind: str, kept: Sequence[tuple[str, str]]) -> Response:
    """Make a success response whose remark names the settings without effect, and log each of them once.

    ``kind`` is the kind of these settings, for example ``topic attribute``.
    """
    logged = _logged.setdefault(call.broker, set())
    for name in dict.fromkeys(name for name, _ in kept):
        what = f"the {kind} {name.lstrip('+-')}"
        if what not in logged:
            logged.add(what)
            log.info("%s is stored and shown, but has no effect in mocketmq", what)
    names = ", ".join(f"{name} of {shorten(owner)}" for name, owner in kept)
    return Response(remark=f"stored, but without effect in mocketmq: {names}" if kept else None)
