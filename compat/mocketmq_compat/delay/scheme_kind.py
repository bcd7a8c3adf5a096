"""What each delay scheme of this package offers: how to open it, and its messages without a broker."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from mocketmq.message.message_id import offset_message_id
from mocketmq.schedule.timed_scheme import OpenScheme
from mocketmq_compat.delay.delayed_file import DelayedFile, Entry

InspectionProgress = Callable[[str, int, int | None], None]
"""Called with the step, the number of files or messages done, and the total, if known."""

UNFINISHED: Final = "unfinished"
"""The kind of trouble of what is still being written, or was left by a kill: its sender got no answer."""


class Trouble(NamedTuple):
    """A problem: the file, a word for the kind, and a sentence."""

    file: str
    kind: str
    reason: str


class KeptMessage(NamedTuple):
    """A message that will be delivered, and the file that it is in, for people."""

    file: str
    message: DelayedFile

    @property
    def entry(self) -> Entry:
        """The entry of its header."""
        return self.message.header.entry

    def has_id(self, wanted: str) -> bool:
        """Whether this is the message's unique key or offset message id."""
        header = self.message.header
        return wanted == header.unique_key or (
            wanted.upper() == offset_message_id(header.store_host, header.number)
        )


class Page(NamedTuple):
    """The first messages in order of due time, and what could not be read on the way to them."""

    messages: list[KeptMessage]
    troubles: list[Trouble]


class Inspection(NamedTuple):
    """The result of a check. Instants in emulated milliseconds, sizes in bytes of content."""

    files: int
    messages: int  # without a problem
    bytes: int  # of all files
    first_due_ms: int | None
    last_due_ms: int | None
    topics: dict[str, int]  # messages by topic
    troubles: list[Trouble]
    quarantined: list[Trouble]
    temporary: int  # parts being written, or left by a kill, which the next start removes

    @property
    def is_good(self) -> bool:
        """Whether there is no problem."""
        return not self.troubles and not self.quarantined


class Inspector(Protocol):
    """Looks into a scheme's folder, which a broker may be using, and changes nothing.

    What disappears meanwhile was delivered, and is not counted. Every method may raise OSError.
    """

    def first(self, limit: int, *, topic: str | None = None, after: Entry | None = None) -> Page:
        """The first ``limit`` messages behind ``after`` for this topic, or for any."""

    def find(self, wanted: str) -> list[KeptMessage | Trouble]:
        """The messages with this unique key or offset message id, or in the file of this name.

        A damaged one is found by its name, and by the number and key hash in it.
        """

    def verify(self) -> Inspection:
        """Check every part of the folder, and whether it holds a message twice."""


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
    """Whether the folder may hold pending messages: cheap; may return false positives."""
    read_messages: Callable[[Path, InspectionProgress], Iterator[KeptMessage | Trouble]]
    """Each message in the folder that waits, in any order, and what cannot be read. Changes nothing.

    The file of a record ends with ``/`` and the name of its entry, or is that name.
    """
    new_messages: Callable[[Path, InspectionProgress], AbstractContextManager[NewMessages]]
    """Opens the folder while no broker uses it, and makes it if it is missing."""
    inspector: Callable[[Path, InspectionProgress], Inspector]
