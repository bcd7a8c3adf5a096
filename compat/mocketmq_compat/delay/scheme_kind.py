"""What each delay scheme of this package offers: how to open it, and its messages without a broker."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple, Protocol

from mocketmq.schedule.timed_scheme import OpenScheme
from mocketmq_compat.delay.delayed_file import DelayedFile

InspectionProgress = Callable[[str, int, int | None], None]
"""Called with the step, the number of files or messages done, and the total, if known."""


class Trouble(NamedTuple):
    """A problem: the file, a word for the kind, and a sentence."""

    file: str
    kind: str
    reason: str


class KeptMessage(NamedTuple):
    """A message that will be delivered, and the file that it is in, for people."""

    file: str
    message: DelayedFile


class NewMessages(Protocol):
    """A scheme's folder that no broker uses, to add messages to. Every method may raise OSError."""

    def add(self, message: DelayedFile) -> bool:
        """Keep the message, durable after ``sync``; False if it is there already.

        Raises DamagedFileError when another message has its identity.
        """

    def sync(self) -> None:
        """Make all that was added durable."""


class SchemeKind(NamedTuple):
    """A delay scheme, as the registry knows it. Its functions raise OSError when a folder cannot be used."""

    open_scheme: OpenScheme
    """Raises a StoreError instead."""
    holds_messages: Callable[[Path], bool]
    """Whether the folder may hold messages that wait: quick, and rather yes than no."""
    read_messages: Callable[[Path, InspectionProgress], Iterator[KeptMessage | Trouble]]
    """Each message in the folder that waits, in any order, and what cannot be read. Changes nothing."""
    new_messages: Callable[[Path, InspectionProgress], AbstractContextManager[NewMessages]]
    """Opens the folder while no broker uses it, and makes it if it is missing."""
