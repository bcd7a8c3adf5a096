"""Packs of failed tests: a file for each, which `mocketmq open` shows."""

from __future__ import annotations

import hashlib
import re
import shlex
from pathlib import Path
from typing import Final

from mocketmq.client.blocking import BlockingClient
from mocketmq.errors import EmulatorError
from mocketmq.testing.broker import Broker

_LONGEST_NAME: Final = 80
_ANSWER_S: Final = 60.0
"""Real seconds for a broker that may be slow, or hang."""


def pack(broker: Broker, folder: Path, test: str, failure: str) -> str:
    """Pack the broker's state at the failure of the test. Return where, or why there is no pack."""
    if broker.process and broker.has_died:
        return f"no pack: {broker.process.death}"
    file = folder / _file_name(test)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with BlockingClient(*broker.login, answer_s=_ANSWER_S) as client:
            client.pack(file, test=test, failure=failure)
    except (EmulatorError, OSError) as error:
        return f"no pack: {error}"
    return f"packed; look at it with: mocketmq open {shlex.quote(str(file))}"


def _file_name(test: str) -> str:
    """A name that no other test has, by the end of the test's id."""
    shown = re.sub(r"[^A-Za-z0-9._-]+", "-", test.rpartition("::")[2])[:_LONGEST_NAME].strip("-.")
    return f"{shown}-{hashlib.sha256(test.encode()).hexdigest()[:8]}.mocketmq"
