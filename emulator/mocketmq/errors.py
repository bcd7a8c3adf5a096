"""The tree of the emulator's errors, and the table of their codes in each protocol.

::

    EmulatorError
    ├── RefusedError               the request cannot be served; nothing was changed
    │   ├── InvalidArgumentError       a value is out of its range: field, value and what is allowed
    │   ├── IllegalMessageError        body or properties over their limits, malformed property
    │   ├── UnauthorizedError          the token, or a user's password, is missing or wrong
    │   ├── AccessError                the access key may not do this
    │   │   ├── UnknownAccessKeyError      … or is unknown
    │   │   ├── SignatureError             … or the signature does not match the request
    │   │   └── AuthError                  the user may not do this, in the words of RocketMQ 5
    │   ├── NoPermissionError          the topic may not be read or written in this way
    │   ├── TopicNotFoundError         the topic does not exist, and is not created on first use
    │   ├── QueueNotFoundError         the topic has no queue with this number
    │   │   └── WrongQueueError            … and a message was sent there
    │   ├── OutsideQueueError          the offset is not between the queue's oldest message and its end
    │   ├── GroupNotFoundError         the group does not exist, and is not created on first use
    │   ├── MessageNotFoundError       no message has this id or key
    │   ├── NotPendingError            the message is no longer waiting for its due time
    │   ├── UndecidableError           the message is not a half message, or is being decided
    │   ├── ReceiptError               the receipt handle is unknown, or of another topic or group
    │   │   └── ReceiptSpentError          … or has expired or was used
    │   ├── OverLimitError             the delay limits of another system allow no more messages in flight
    │   ├── LiteTopicQuotaError        there are too many lite topics
    │   ├── LiteSubscriptionQuotaError a client would subscribe to too many lite topics
    │   ├── FaultNotFoundError         no fault rule has this name
    │   ├── BrokerNotFoundError        the cluster has no broker with this name
    │   ├── NameServerNotFoundError    the cluster has no name server with this number
    │   ├── BrokerStateError           the broker's state does not allow the request
    │   ├── SeedError                  a file of seeds, or one of its messages, is refused
    │   ├── SnapshotNotFoundError      no snapshot has this name
    │   ├── SnapshotExistsError        a snapshot with this name exists
    │   ├── SnapshotQuotaError         there are too many snapshots, or they are too large
    │   ├── SnapshotDamagedError       a file is not a snapshot that this broker can restore
    │   ├── ReportNotFoundError        no report with this name is kept
    │   ├── ClientOfflineError         the client is not connected, or cannot do this
    │   └── ClockError                 time only moves forward, and within its range
    ├── ClientFailedError          a connected client refused a request, or disconnected
    │   └── ClientTimeoutError         … or has not answered in time
    ├── ReportError                a lateness report could not be made
    ├── StoreError                 the disk or the database; what was not acknowledged was not stored
    │   ├── StoreUnavailableError      a write or read failed; it may work again when the fault ends
    │   │   └── StoreFailedError           … or a sync of the disk: nothing is written until a restart
    │   │       └── StoreDamagedError          … or SQLite found damage in the database
    │   ├── StoreBusyError             too many writes are waiting
    │   ├── StoreFullError             delayed messages have used up their disk quota
    │   ├── DelayedSendError           in the words of the patch that mode dongwo follows
    │   ├── StoreLockedError           another broker owns the data directory
    │   └── StoreUnreadableError       the database cannot be opened; it is left as it is
    ├── SettingError               a setting has a value that is not allowed; the broker does not start
    ├── ListenError                a port cannot be opened; the broker does not start
    ├── BrokerDownError            the broker of the queue has crashed or was shut down
    ├── StoppingError              the broker is starting or stopping
    ├── InternalError              a defect in mocketmq itself; please report it
    └── InjectedError              an injected fault refused the request, with codes of its own

The protocols must take codes only from :func:`wire_codes`.
"""

from __future__ import annotations

from typing import NamedTuple


class EmulatorError(Exception):
    """Root of all errors that the emulator raises deliberately."""


class RefusedError(EmulatorError):
    """The request cannot be served; nothing was changed."""


class InvalidArgumentError(RefusedError):
    """A value is not allowed in ``field``; ``reason`` is RocketMQ's sentence, if there is one."""

    def __init__(self, field: str, value: object, allowed: str, reason: str | None = None) -> None:
        super().__init__(reason or f"{field} is {shorten(value)}; allowed: {allowed}")
        self.field = field
        self.allowed = allowed


class IllegalMessageError(RefusedError):
    """The message breaks a limit of the protocol in ``field``."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(reason)
        self.field = field


class UnauthorizedError(RefusedError):
    """The token, or a user's name and password, is missing or wrong."""

    def __init__(self, reason: str, challenge: str = "Bearer") -> None:
        super().__init__(reason)
        self.challenge = challenge  # for the header WWW-Authenticate


class AccessError(RefusedError):
    """The access key may not do this."""


class UnknownAccessKeyError(AccessError):
    """The access key is missing or unknown."""


class SignatureError(AccessError):
    """The signature does not match the request and the access key's secret."""


class AuthError(AccessError):
    """RocketMQ 5's users or policies do not allow the request, or a change of them is invalid."""


class NoPermissionError(RefusedError):
    """The topic or group may not be used in this way."""


class TopicNotFoundError(RefusedError):
    """The topic does not exist and is not created on first use."""


class QueueNotFoundError(RefusedError):
    """The topic has no queue with this number."""

    def __init__(self, topic: str, queue_id: int, count: int) -> None:
        super().__init__(f"request queueId[{queue_id}] is illegal, {topic} has 0 to {count - 1}")
        self.topic, self.queue_id, self.count = topic, queue_id, count
        self.field = "queue_id"
        self.allowed = f"0 to {count - 1}"


class WrongQueueError(QueueNotFoundError):
    """The message was sent to a queue that its topic does not have."""


class OutsideQueueError(RefusedError):
    """The offset is not between the queue's oldest message and its end."""

    def __init__(self, offset: int, first: int, end: int) -> None:
        super().__init__(f"Target offset {offset} not in consume queue range [{first}-{end}]")
        self.field = "offset"
        self.allowed = f"{first} to {end}"


class GroupNotFoundError(RefusedError):
    """The consumer group does not exist and is not created on first use."""


class MessageNotFoundError(RefusedError):
    """No stored message has this id or key."""


class NotPendingError(RefusedError):
    """The message was already delivered or cancelled, or was never delayed."""


class UndecidableError(RefusedError):
    """The message is not a half message, or the producer's decision does not apply to it."""


class ReceiptError(RefusedError):
    """The receipt handle is unknown, or belongs to another topic or group."""


class ReceiptSpentError(ReceiptError):
    """The receipt handle has expired, or its message is settled already."""


class OverLimitError(RefusedError):
    """The group has as many messages in flight as the delay limits of another system allow."""


class LiteTopicQuotaError(RefusedError):
    """The broker has the maximum number of lite topics."""


class LiteSubscriptionQuotaError(RefusedError):
    """The client, or all clients together, would subscribe to more lite topics than allowed."""


class FaultNotFoundError(RefusedError):
    """No fault rule has this name."""


class BrokerNotFoundError(RefusedError):
    """The cluster has no broker with this name."""

    def __init__(self, name: str, names: tuple[str, ...]) -> None:
        super().__init__(f"broker is {shorten(name)}; allowed: {' or '.join(names)}")


class NameServerNotFoundError(RefusedError):
    """The cluster has no name server with this number."""

    def __init__(self, number: int, count: int) -> None:
        super().__init__(f"name server is {number}; allowed: 1{f' to {count}' if count > 1 else ''}")


class BrokerStateError(RefusedError):
    """The broker's state does not allow the request."""


class SeedError(RefusedError):
    """A file of seeds or one of its messages is refused; no message was stored."""

    def __init__(self, field: str, reason: str, allowed: str = "") -> None:
        super().__init__(reason)
        if field:
            self.field = field
        if allowed:
            self.allowed = allowed


class SnapshotNotFoundError(RefusedError):
    """No snapshot has this name."""


class SnapshotExistsError(RefusedError):
    """A snapshot with this name exists, and the request does not allow replacing it."""


class SnapshotQuotaError(RefusedError):
    """The maximum number of snapshots is reached, or the state is too large for a snapshot."""


class SnapshotDamagedError(RefusedError):
    """The file is not a snapshot, was altered, or needs a newer version or another number of brokers."""


class ReportNotFoundError(RefusedError):
    """No report with this name is kept."""


class ClientOfflineError(RefusedError):
    """The client is not connected, or cannot do this."""


class ClockError(RefusedError):
    """The clock cannot go back, or beyond its range."""


class ClientFailedError(EmulatorError):
    """The client refused the broker's request, or disconnected before it answered."""


class ClientTimeoutError(ClientFailedError):
    """The client has not answered in time."""


class ReportError(EmulatorError):
    """The report could not be made: the report command is not installed, or has failed."""


class StoreError(EmulatorError):
    """The disk or the database failed."""


class StoreUnavailableError(StoreError):
    """A write or a read failed and left nothing behind; it may be tried again."""


class StoreFailedError(StoreUnavailableError):
    """A sync of the disk failed: waiting writes may or may not be stored, and all later ones are refused."""


class StoreDamagedError(StoreFailedError):
    """The database is damaged; the request has stored nothing, and nothing more is written."""


class StoreBusyError(StoreError):
    """Too many writes are waiting; try again in a moment."""


class StoreFullError(StoreError):
    """Delayed messages have used up their disk quota."""


class DelayedSendError(StoreError):
    """A delayed message could not be kept, in the words of the patch (docs/protocol/aliyun.md §3.2, D-4)."""

    def __init__(self) -> None:
        super().__init__("send delay message error!")


class StoreLockedError(StoreError):
    """Another process, ``pid``, has the data directory open."""

    def __init__(self, directory: str, pid: int | None) -> None:
        owner = "another process" if pid is None else f"the process with pid {pid}"
        super().__init__(
            f"{directory} is in use by {owner}; stop it, or give this broker another --data directory"
        )
        self.pid = pid


class StoreUnreadableError(StoreError):
    """The database cannot be read, or is newer than this program; it was left as it is."""


class SettingError(EmulatorError):
    """A setting has a value that is not allowed; ``given`` is its flag or variable."""

    def __init__(
        self, field: str, value: object, allowed: str, given: str | None = None, reason: str | None = None
    ) -> None:
        super().__init__(reason or f"{given or f'setting {field}'} is {shorten(value)}; allowed: {allowed}")
        self.field = field
        self.allowed = allowed


class ListenError(EmulatorError):
    """A listener could not open its port."""


class BrokerDownError(EmulatorError):
    """The broker of the queue, or every broker of the topic, has crashed or was shut down."""


class StoppingError(EmulatorError):
    """The broker is starting or stopping and takes no requests."""


class InternalError(EmulatorError):
    """A defect in mocketmq itself; please report it with the log."""


class WireCodes(NamedTuple):
    """The codes of a class of errors, by protocol."""

    http: int  # HTTP status
    remoting: int  # RocketMQ's ResponseCode, docs/protocol/remoting.md §7.1
    aliyun: str  # code of Aliyun's HTTP protocol, which implies a status: docs/protocol/aliyun.md §1.12
    grpc: int  # Code of RocketMQ's gRPC protocol


class InjectedError(EmulatorError):
    """An injected fault refused the request; ``answer`` is the response if the request was served before."""

    codes: WireCodes | None = None

    def __init__(self, reason: str, codes: WireCodes) -> None:
        super().__init__(reason)
        self.codes = codes
        self.answer: object = None


_WIRE_CODES: dict[type[EmulatorError], WireCodes] = {
    EmulatorError: WireCodes(500, 1, "InternalError", 50001),
    RefusedError: WireCodes(400, 1, "InvalidArgument", 40000),
    InvalidArgumentError: WireCodes(400, 1, "InvalidArgument", 40000),
    IllegalMessageError: WireCodes(400, 13, "InvalidArgument", 50001),
    UnauthorizedError: WireCodes(401, 16, "AccessDenied", 40100),
    AccessError: WireCodes(403, 1, "AccessDenied", 40100),
    UnknownAccessKeyError: WireCodes(403, 1, "InvalidAccessKeyId", 40100),
    SignatureError: WireCodes(403, 1, "SignatureDoesNotMatch", 40100),
    AuthError: WireCodes(403, 16, "AccessDenied", 40100),
    NoPermissionError: WireCodes(403, 16, "AccessDenied", 40300),
    TopicNotFoundError: WireCodes(404, 17, "TopicNotExist", 40402),
    QueueNotFoundError: WireCodes(404, 29, "InvalidArgument", 40000),
    WrongQueueError: WireCodes(409, 29, "InvalidArgument", 40000),
    OutsideQueueError: WireCodes(409, 1, "InvalidArgument", 40019),
    GroupNotFoundError: WireCodes(404, 26, "SubscriptionNotExist", 40403),
    MessageNotFoundError: WireCodes(404, 22, "MessageNotExist", 50001),
    NotPendingError: WireCodes(409, 604, "InvalidArgument", 50001),
    UndecidableError: WireCodes(409, 1, "InvalidArgument", 50001),
    ReceiptError: WireCodes(409, 604, "ReceiptHandleError", 40013),
    ReceiptSpentError: WireCodes(409, 604, "MessageNotExist", 40013),
    OverLimitError: WireCodes(429, 2, "QpsLimitExceeded", 42900),
    LiteTopicQuotaError: WireCodes(429, 2017, "QpsLimitExceeded", 42901),
    LiteSubscriptionQuotaError: WireCodes(429, 2018, "QpsLimitExceeded", 42902),
    FaultNotFoundError: WireCodes(404, 1, "InvalidArgument", 50001),
    BrokerNotFoundError: WireCodes(404, 1, "InvalidArgument", 50001),
    NameServerNotFoundError: WireCodes(404, 1, "InvalidArgument", 50001),
    BrokerStateError: WireCodes(409, 1, "InvalidArgument", 50001),
    BrokerDownError: WireCodes(503, 14, "InternalError", 50001),
    SeedError: WireCodes(400, 1, "InvalidArgument", 40000),
    SnapshotNotFoundError: WireCodes(404, 1, "InvalidArgument", 50001),
    SnapshotExistsError: WireCodes(409, 1, "InvalidArgument", 50001),
    SnapshotQuotaError: WireCodes(409, 1, "InvalidArgument", 50001),
    SnapshotDamagedError: WireCodes(409, 1, "InvalidArgument", 50001),
    ReportNotFoundError: WireCodes(404, 1, "InvalidArgument", 50001),
    ClientOfflineError: WireCodes(404, 1, "InvalidArgument", 50001),
    ClockError: WireCodes(409, 604, "InvalidArgument", 40000),
    ClientFailedError: WireCodes(502, 1, "InternalError", 50001),
    ClientTimeoutError: WireCodes(504, 207, "InternalError", 50400),
    ReportError: WireCodes(503, 1, "InternalError", 50001),
    StoreError: WireCodes(503, 14, "InternalError", 50001),
    StoreUnavailableError: WireCodes(503, 14, "InternalError", 50001),
    StoreFailedError: WireCodes(503, 14, "InternalError", 50001),
    StoreDamagedError: WireCodes(500, 1, "InternalError", 50001),
    StoreBusyError: WireCodes(503, 2, "QpsLimitExceeded", 42900),
    StoreFullError: WireCodes(507, 14, "InternalError", 50001),
    DelayedSendError: WireCodes(503, 1, "InternalError", 50001),
    StoreLockedError: WireCodes(503, 14, "InternalError", 50001),
    StoreUnreadableError: WireCodes(503, 14, "InternalError", 50001),
    SettingError: WireCodes(500, 1, "InternalError", 50001),
    ListenError: WireCodes(500, 1, "InternalError", 50001),
    StoppingError: WireCodes(503, 14, "InternalError", 50001),
    InternalError: WireCodes(500, 1, "InternalError", 50001),
    InjectedError: WireCodes(503, 1, "InternalError", 50001),
}


def wire_codes(error: EmulatorError) -> WireCodes:
    """Return the codes of this error."""
    own = error.codes if isinstance(error, InjectedError) else None
    return own or _WIRE_CODES[type(error)]


def as_emulator_error(error: Exception) -> EmulatorError:
    """Return an EmulatorError unchanged; log any other exception and wrap it in an InternalError."""
    if isinstance(error, EmulatorError):
        return error
    import logging  # noqa: PLC0415 - most commands start without it

    logging.getLogger(__name__).error("a request failed because of a defect in mocketmq", exc_info=error)
    return InternalError(f"a defect in mocketmq: {error!r}; see its log")


def shorten(value: object, limit: int = 80) -> str:
    """Return ``repr(value)``, cut to ``limit`` characters so that an error never repeats a whole body."""
    text = repr(value)
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
