"""The header of each request: its fields, declared once, beside the code that they belong to (sheet 2).

A field's name on the wire is its name here in camel case, unless the request says otherwise. Fields without a
default are mandatory. Times end in ``_ms`` here, not on the wire.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Final, NamedTuple

from emulator.errors import InvalidArgumentError
from emulator.remoting.codes import RequestCode

Int32 = Annotated[int, 32]
"""What Java reads as an Integer; every other number is a Long."""


class NoHeader(NamedTuple):
    """A request that has none, or none that matters here."""


class SendMessage(NamedTuple):
    """2.2."""

    producer_group: str
    topic: str
    default_topic: str
    default_topic_queue_nums: Int32
    queue_id: Int32
    sys_flag: Int32
    born_timestamp: int
    flag: Int32
    properties: str = ""
    reconsume_times: Int32 = 0
    unit_mode: bool = False
    max_reconsume_times: Int32 | None = None
    batch: bool = False


class PullMessage(NamedTuple):
    """2.3."""

    consumer_group: str
    topic: str
    queue_id: Int32
    queue_offset: int
    max_msg_nums: Int32
    sys_flag: Int32
    commit_offset: int
    suspend_timeout_millis: int
    sub_version: int
    subscription: str | None = None
    expression_type: str | None = None
    max_msg_bytes: Int32 | None = None


class QueryMessage(NamedTuple):
    """2.8. ``unique_key_query`` rides beside upstream's header class."""

    topic: str
    key: str
    max_num: Int32
    begin_timestamp: int
    end_timestamp: int
    unique_key_query: bool = False


class QueryConsumerOffset(NamedTuple):
    """2.4."""

    consumer_group: str
    topic: str
    queue_id: Int32
    set_zero_if_not_found: bool = True


class UpdateConsumerOffset(NamedTuple):
    """2.4."""

    consumer_group: str
    topic: str
    queue_id: Int32
    commit_offset: int


class SearchOffset(NamedTuple):
    """2.4; ``boundary_type`` is ``lower`` or ``upper``, of 5.x clients only."""

    topic: str
    queue_id: Int32
    timestamp: int
    boundary_type: str | None = None


class OffsetOfQueue(NamedTuple):
    """2.4: 30 to 32."""

    topic: str
    queue_id: Int32


class ViewMessage(NamedTuple):
    """2.8; a commit offset."""

    offset: int


class UnregisterClient(NamedTuple):
    """2.5."""

    client_id: str
    producer_group: str | None = None
    consumer_group: str | None = None


class SendBack(NamedTuple):
    """2.7; ``offset`` is the message's commit offset."""

    offset: int
    group: str
    delay_level: Int32
    origin_msg_id: str | None = None
    origin_topic: str | None = None
    unit_mode: bool = False
    max_reconsume_times: Int32 | None = None


class ConsumerList(NamedTuple):
    """2.5."""

    consumer_group: str


class RouteInfo(NamedTuple):
    """2.1."""

    topic: str


class ResetOffset(NamedTuple):
    """2.10; ``timestamp`` in milliseconds, -1 for the end of the queue."""

    topic: str
    group: str
    timestamp: int
    is_force: bool


class Request(NamedTuple):
    """A header, and the names of its fields on the wire where they are not those of the class."""

    header: type[Any]
    names: Mapping[str, str] = {}


_LETTERS: Final = dict(
    zip(
        (
            *("producer_group", "topic", "default_topic", "default_topic_queue_nums", "queue_id", "sys_flag"),
            *("born_timestamp", "flag", "properties", "reconsume_times", "unit_mode", "max_reconsume_times"),
            "batch",
        ),
        "abcdefghijklm",
        strict=True,
    )
)

REQUESTS: Final[Mapping[int, Request]] = {
    RequestCode.SEND_MESSAGE: Request(SendMessage),
    RequestCode.PULL_MESSAGE: Request(PullMessage),
    RequestCode.QUERY_MESSAGE: Request(QueryMessage, {"unique_key_query": "_UNIQUE_KEY_QUERY"}),
    RequestCode.QUERY_CONSUMER_OFFSET: Request(QueryConsumerOffset),
    RequestCode.UPDATE_CONSUMER_OFFSET: Request(UpdateConsumerOffset),
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: Request(SearchOffset),
    RequestCode.GET_MAX_OFFSET: Request(OffsetOfQueue),
    RequestCode.GET_MIN_OFFSET: Request(OffsetOfQueue),
    RequestCode.GET_EARLIEST_MSG_STORETIME: Request(OffsetOfQueue),
    RequestCode.VIEW_MESSAGE_BY_ID: Request(ViewMessage),
    RequestCode.HEART_BEAT: Request(NoHeader),
    RequestCode.UNREGISTER_CLIENT: Request(UnregisterClient, {"client_id": "clientID"}),
    RequestCode.CONSUMER_SEND_MSG_BACK: Request(SendBack),
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: Request(ConsumerList),
    RequestCode.LOCK_BATCH_MQ: Request(NoHeader),
    RequestCode.UNLOCK_BATCH_MQ: Request(NoHeader),
    RequestCode.CHECK_CLIENT_CONFIG: Request(NoHeader),
    RequestCode.GET_ROUTEINFO_BY_TOPIC: Request(RouteInfo),
    RequestCode.GET_BROKER_CLUSTER_INFO: Request(NoHeader),
    RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: Request(NoHeader),
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: Request(ResetOffset),
    RequestCode.SEND_MESSAGE_V2: Request(SendMessage, _LETTERS),
    RequestCode.SEND_BATCH_MESSAGE: Request(SendMessage, _LETTERS),
    RequestCode.LITE_PULL_MESSAGE: Request(PullMessage),
}


def _integer(bits: int) -> Callable[[str], int]:
    limit = 1 << bits - 1

    def read(text: str) -> int:
        number = int(text)
        if not -limit <= number < limit:
            raise ValueError(text)
        return number

    return read


_BOOLEANS: Final = {"true": True, "false": False, "1": True, "0": False}
"""The C++ client of 1.2.4 sends numbers. Upstream takes its 1 for false, which breaks its batches."""


def _boolean(text: str) -> bool:
    return _BOOLEANS[text.lower()]


class _Field(NamedTuple):
    name: str
    read: Callable[[str], Any]
    allowed: str
    is_mandatory: bool
    default: Any


class HeaderReader:
    """Reads the header of one request from the ext fields of a command."""

    def __init__(self, request: Request) -> None:
        self._make: Callable[[list[Any]], Any] = request.header._make
        self._fields = list(_fields(request))

    def read(self, ext: Mapping[str, str]) -> Any:
        """The header. What it does not know is left alone, as any request may carry more (sheet 2).

        Raises InvalidArgumentError for what is missing, in upstream's words, or not readable.
        """
        values = []
        for name, read, allowed, is_mandatory, default in self._fields:
            text = ext.get(name)
            if text is None:
                if is_mandatory:
                    raise InvalidArgumentError(name, None, allowed, f"the custom field <{name}> is null")
                values.append(default)
                continue
            try:
                values.append(read(text))
            except (ValueError, KeyError):
                raise InvalidArgumentError(name, text, allowed) from None
        return self._make(values)


def _fields(request: Request) -> Sequence[_Field]:
    kinds: dict[Any, tuple[Callable[[str], Any], str]] = {
        str: (str, "text"),
        int: (_integer(64), "a whole number of 64 bits"),
        Int32: (_integer(32), "a whole number of 32 bits"),
        bool: (_boolean, "true or false"),
    }
    defaults = request.header._field_defaults
    fields = []
    for name, annotation in request.header.__annotations__.items():
        kind = next(kind for kind in kinds if annotation in (kind, kind | None))
        first, *others = name.split("_")
        wire = request.names.get(name, first + "".join(map(str.capitalize, others)))
        fields.append(_Field(wire, *kinds[kind], name not in defaults, defaults.get(name)))
    return fields


READERS: Final = {code: HeaderReader(request) for code, request in REQUESTS.items()}
