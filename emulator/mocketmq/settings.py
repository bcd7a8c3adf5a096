"""Every setting, declared once: type, default, allowed values, help.

To add a setting, declare it in :class:`Settings` and read it where it is used. Flag, variable, key of the
TOML file, checks and ``mocketmq serve --help`` follow from the declaration.

The setting ``max_wait`` is the flag ``--max-wait``, the variable ``MOCKETMQ_MAX_WAIT`` and the key
``max_wait`` of the TOML file. The first of these that is given wins, but all that are given must be valid.
Each is read from text by the same rule. Topics and groups can be declared in the file only.
"""

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from mocketmq import setting_rules as rules
from mocketmq.duration import parse_duration_us
from mocketmq.errors import InvalidArgumentError, SettingError
from mocketmq.failpoint import ENVIRONMENT as FAILPOINT
from mocketmq.message.message_type import MessageType
from mocketmq.nearest import nearest

Profile = Literal["exact", "rocketmq4"]
Durability = Literal["full", "normal"]
LogLevel = Literal["debug", "info", "warning", "error"]
Permission = Literal["rw", "r", "w"]
DelaySync = Literal["always", "interval", "never"]
TlsMode = Literal["permissive", "enforcing", "disabled"]
AutoCreate = bool | Literal["send"]
TimedSchemeName = Literal["directories", "wheel", "slots", "sorted"]
StartDeliverMode = Literal["aliyun4", "aliyun5", "dongwo"]
ContractName = Literal[
    "aliyun4",
    "aliyun5",
    "aliyun5-standard",
    "huawei",
    "huawei5",
    "cmq",
    "sqs",
    "pulsar",
    "rabbitmq",
    "rocketmq4",
    "rocketmq5",
]

MAX_INVISIBLE: Final = "12h"
MAX_INVISIBLE_US: Final = parse_duration_us(MAX_INVISIBLE)
"""The longest invisible time of a message, as in RocketMQ 5.3.3 (maxInvisibleTimeMills)."""
_PREFIX: Final = "MOCKETMQ_"
_CONFIG: Final = "MOCKETMQ_CONFIG"  # names the TOML file
_URL: Final = "MOCKETMQ_URL"  # the broker that client commands talk to
_NOT_SETTINGS: Final = {_CONFIG, _URL, FAILPOINT}


def _setting(
    default: str, rule: rules.Rule, help_text: str = "", *, name: str = "", secret: bool = False
) -> Any:
    """A field whose default is written as a user would write it; empty stands for None.

    ``name`` is the name for users, if it differs from the field's. A secret is never shown.
    """
    return field(
        default=rule.parse(default) if default else None,
        repr=not secret,
        metadata={"rule": rule, "default": default, "help": help_text, "name": name, "secret": secret},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDeclaration:
    """A topic that exists from the start. In the file, the numbers of queues default to ``topic_queues``."""

    name: str = field(metadata={"rule": rules.TOPIC})
    read_queues: int = _setting("4", rules.QUEUES)
    write_queues: int = _setting("4", rules.QUEUES)
    perm: Permission = _setting("rw", rules.choice(Permission))
    type: MessageType | None = _setting(
        "", rules.choice(MessageType)
    )  # its attribute message.type, for gRPC clients


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDeclaration:
    """A consumer group that exists from the start."""

    name: str = field(metadata={"rule": rules.GROUP})
    max_retries: int = _setting("16", rules.whole_number(0, 1000))
    retry_queues: int = _setting("1", rules.whole_number(1, 64))
    fifo: bool = _setting("false", rules.BOOLEAN)  # gRPC clients consume in order


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a broker is started with. Fields in ``_us`` are in microseconds, fields in ``_bytes`` in bytes."""

    data: str = _setting("mocketmq-data", rules.TEXT, "data directory, or :memory: to keep nothing")
    host: str = _setting("127.0.0.1", rules.TEXT, "address to listen on")
    http_port: int = _setting("9877", rules.PORT, "port of the JSON API; 0 picks a free one")
    allowed_hosts: frozenset[str] | None = _setting(
        "",
        rules.HOSTS,
        "further names by which browsers and clients reach the HTTP port, and hosts whose pages may use it,"
        " separated by commas; * allows all",
    )
    aliyun_port: int | None = _setting(
        "",
        rules.PORT,
        "extra port for Aliyun's HTTP protocol, which http_port serves as well; 0 picks a free one",
    )
    remoting: bool = _setting("true", rules.BOOLEAN, "serve RocketMQ clients, as name server and broker")
    namesrv_port: int = _setting("9876", rules.PORT, "port of the name server; 0 picks a free one")
    broker_port: int = _setting(
        "10911", rules.PORT, "port of the broker; its VIP channel is two below; 0 picks free ones"
    )
    grpc: bool = _setting("true", rules.BOOLEAN, "serve the clients of RocketMQ 5, which speak gRPC")
    grpc_port: int = _setting("8081", rules.PORT, "port for gRPC; 0 picks a free one")
    advertise: str | None = _setting(
        "", rules.HOST, "host or host:port of the broker to give to clients, instead of the one each used"
    )
    namesrv_address: str | None = _setting(
        "",
        rules.ADDRESS,
        "host:port of the name server to give to clients that ask over HTTP, instead of our own",
    )
    port: int | None = _setting(
        "", rules.ZERO, "0 picks a free port for each listener without a port setting"
    )
    ready_file: str | None = _setting(
        "", rules.TEXT, "file that names the ports, as JSON; it exists while the broker is ready"
    )
    clock: str = _setting("real", rules.CLOCK, "how time runs: real, manual, or xN for N times as fast")
    profile: Profile = _setting(
        "exact", rules.choice(Profile), "timing of the delay levels: exact, or as rocketmq4"
    )
    levels: str = _setting(
        "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h",
        rules.TEXT,
        "delays of the delay levels, from level 1 on",
    )
    lateness_from: str | None = _setting(
        "", rules.TEXT, "report.json or ledger of a real cluster: deliver delayed messages as late as it did"
    )
    lateness_seed: int = _setting(
        "0", rules.whole_number(0, (1 << 63) - 1), "seed from which lateness_from is played back"
    )
    start_deliver_time: StartDeliverMode = _setting(
        "aliyun4", rules.choice(StartDeliverMode), "rules for __STARTDELIVERTIME: aliyun4, aliyun5 or dongwo"
    )
    start_deliver_window_us: int = _setting(
        "40d",
        rules.duration("36500d"),
        "largest lead of __STARTDELIVERTIME; beyond it aliyun4 refuses, aliyun5 delivers at once,"
        " dongwo keeps",
        name="start_deliver_window",
    )
    contract: ContractName | None = _setting(
        "",
        rules.choice(ContractName),
        "apply the delay limits of another system: longest delay, rounding, head-of-line blocking"
        " (docs/contracts.md)",
    )
    timed_scheme: TimedSchemeName = _setting(
        "directories",
        rules.choice(TimedSchemeName),
        "the delay scheme that keeps messages with an absolute due time: directories, wheel, slots or sorted",
    )
    durability: Durability = _setting(
        "full",
        rules.choice(Durability),
        "acknowledged messages survive a power cut (full) or only a kill (normal)",
    )
    delay_sync: DelaySync = _setting(
        "always",
        rules.choice(DelaySync),
        "when files of delayed messages are synced to disk: before a send is answered"
        " (always), every second (interval), or when the system does it (never)",
    )
    delay_quota_bytes: int = _setting(
        "0",
        rules.size("0", "1000000G"),
        "largest disk space for files of delayed messages; 0 sets no limit",
        name="delay_quota",
    )
    token: str | None = _setting(
        "", rules.TOKEN, "secret that every request to the JSON API must carry, except health", secret=True
    )
    access_keys: Mapping[str, str] | None = _setting(
        "",
        rules.KEYS,
        "id:secret pairs; RocketMQ clients and Aliyun's HTTP clients must sign with one",
        secret=True,
    )
    security_tokens: Mapping[str, str] | None = _setting(
        "",
        rules.SECURITY_TOKENS,
        "id:token pairs; Aliyun's HTTP clients with such an access key must send its STS token",
        secret=True,
    )
    acl: str | None = _setting(
        "", rules.TEXT, "file of accounts with permissions, in the format of RocketMQ's plain_acl.yml"
    )
    tls: TlsMode = _setting(
        "permissive", rules.choice(TlsMode), "TLS for RocketMQ clients: permissive, enforcing or disabled"
    )
    tls_cert: str | None = _setting(
        "", rules.TEXT, "certificate, a PEM file; without one, a self-signed certificate is made"
    )
    tls_key: str | None = _setting(
        "", rules.TEXT, "key of the certificate, a PEM file, unless the certificate's file has it"
    )
    auto_create_topics: AutoCreate = _setting(
        "true",
        rules.AUTO_CREATE,
        "create topics when a client first asks for their route (true), or first sends to them (send, and in"
        " profile rocketmq4), or never (false)",
    )
    auto_create_groups: bool = _setting("true", rules.BOOLEAN, "create consumer groups on first use")
    topic_queues: int = _setting("4", rules.QUEUES, "queues of a topic created on first use")
    mixed_message_type: bool = _setting(
        "false",
        rules.BOOLEAN,
        "let RocketMQ's tools set message.type to MIXED; a topic without this attribute takes all types, too",
    )
    max_message_bytes: int = _setting(
        "4M", rules.size("1", "15M"), "largest body of a message; a RocketMQ frame holds 16M in total"
    )
    max_pull_messages: int = _setting(
        "32", rules.whole_number(1, 1024), "most messages in the answer to a pull"
    )
    max_pull_bytes: int = _setting(
        "256K",
        rules.size("1", "15M"),
        "most bytes in the answer to a pull, unless its first message is larger",
    )
    recall_levels: bool = _setting(
        "false", rules.BOOLEAN, "give handles to recall messages that are delayed by level, too"
    )
    strict_recall: bool = _setting(
        "false", rules.BOOLEAN, "refuse to recall what no longer waits; RocketMQ answers with success"
    )
    max_long_poll_us: int = _setting(
        "30s",
        rules.duration("5m", "100ms"),
        "longest long poll of a RocketMQ or Aliyun client; one that asks for more ends empty after this time",
        name="max_long_poll",
    )
    max_wait_us: int = _setting(
        "30s",
        rules.duration("5m"),
        "longest wait that a request to the JSON API may ask for, such as an assertion of a test",
        name="max_wait",
    )
    aliyun_invisible_us: int = _setting(
        "300s",
        rules.duration(MAX_INVISIBLE, "1ms"),
        "invisible time of messages taken by Aliyun's HTTP protocol",
        name="aliyun_invisible",
    )
    aliyun_ordered_invisible_us: int = _setting(
        "60s",
        rules.duration(MAX_INVISIBLE, "1ms"),
        "invisible time of messages taken in order by that protocol",
        name="aliyun_ordered_invisible",
    )
    transaction_timeout_us: int = _setting(
        "6s",
        rules.duration("365d"),
        "time from a half message to its first check back",
        name="transaction_timeout",
    )
    transaction_check_interval_us: int = _setting(
        "60s",
        rules.duration("365d", "1ms"),
        "time between two check backs of a half message",
        name="transaction_check_interval",
    )
    transaction_check_max: int = _setting(
        "15", rules.whole_number(1, 1000), "check backs before a half message is discarded"
    )
    retain_age_us: int = _setting(
        "72h",
        rules.duration("36500d"),
        "remove messages that are older than this; 0 keeps all",
        name="retain_age",
    )
    retain_bytes: int = _setting(
        "0",
        rules.size("0", "1000000G"),
        "remove the oldest messages when the store is larger than this; 0 keeps all",
        name="retain_size",
    )
    log_level: LogLevel = _setting("info", rules.choice(LogLevel), "least severe log lines to show")
    topics: tuple[TopicDeclaration, ...] = ()
    groups: tuple[GroupDeclaration, ...] = ()
    faults: tuple[Mapping[str, object], ...] = ()  # as read; the app checks them


class Option(NamedTuple):
    """A setting as the command line offers it."""

    name: str  # its key in the flags of :func:`load_settings`
    help: str
    default: str  # as a user would write it; empty if there is none
    is_bool: bool

    @property
    def flag(self) -> str:
        """The long option."""
        return flag_of(self.name)


def options() -> tuple[Option, ...]:
    """Every setting that has a flag, in the order of declaration."""
    return tuple(
        Option(name, each.metadata["help"], each.metadata["default"], each.metadata["rule"] is rules.BOOLEAN)
        for name, each in _by_name(Settings).items()
    )


def load_settings(
    flags: Mapping[str, object], environ: Mapping[str, str], config_file: Path | None = None
) -> Settings:
    """Merge all sources. A flag that is None, or a variable that is empty, is not given.

    Without ``config_file``, the variable ``MOCKETMQ_CONFIG`` may name one. Variables that have no effect are
    logged. Raises SettingError.
    """
    path = config_file or environ.get(_CONFIG)
    table = _load_toml(Path(path)) if path else {}
    declared = {kind: table.pop(kind, []) for kind in ("topics", "groups", "faults")}
    for sentence in unknown_variables(environ):
        import logging  # noqa: PLC0415 - importing the settings stays cheap

        logging.getLogger(__name__).warning("%s", sentence)
    variables = {name: environ.get(variable_of(name)) or None for name in _by_name(Settings)}
    given = (
        _read(Settings, table, str(path))
        | _read(Settings, _given(variables), variable_of)
        | _read(Settings, _given(flags), flag_of)
    )
    if "port" in given:
        given = dict.fromkeys(("http_port", "namesrv_port", "broker_port", "grpc_port"), 0) | given
    settings = Settings(**given)
    queues = {"read_queues": settings.topic_queues, "write_queues": settings.topic_queues}
    return replace(
        settings,
        topics=_declarations(TopicDeclaration, "topics", declared["topics"], queues, path),
        groups=_declarations(GroupDeclaration, "groups", declared["groups"], {}, path),
        faults=tuple(_tables("faults", declared["faults"], path)),
    )


def flag_of(name: str) -> str:
    """The long option of a setting: ``--max-wait``."""
    return f"--{name.replace('_', '-')}"


def variable_of(name: str) -> str:
    """The environment's variable of a setting: ``MOCKETMQ_MAX_WAIT``."""
    return _PREFIX + name.upper()


def unknown_variables(environ: Mapping[str, str]) -> list[str]:
    """A sentence for each variable that begins as ours do, is given, and has no effect."""
    known = {*map(variable_of, _by_name(Settings)), *_NOT_SETTINGS}
    names = [each.removeprefix(_PREFIX) for each in known]
    sentences = []
    for variable, text in environ.items():
        if text and variable.startswith(_PREFIX) and variable not in known:
            meant = nearest(variable.removeprefix(_PREFIX).upper(), names)
            guess = f"; did you mean {_PREFIX}{meant}?" if meant else ""
            sentences.append(f"the variable {variable} has no effect{guess}")
    return sentences


class _Word(str):
    """A word that an error shows without quotes, in the place of a value."""

    __slots__ = ()
    __repr__ = str.__str__


def _load_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise SettingError("config", str(path), f"a readable TOML file ({path}: {reason})") from None


def _by_name(kind: type[Any]) -> dict[str, Field[Any]]:
    """The fields that can be read from text, by their names for users."""
    return {each.metadata.get("name") or each.name: each for each in fields(kind) if each.metadata}


def _read(
    kind: type[Any], raw: Mapping[str, object], source: str | Callable[[str], str], place: str = ""
) -> dict[str, Any]:
    """The values of one source by their fields, each checked.

    The source is a file, where ``place`` stands before a name, or says how else a name is given.
    """
    known = _by_name(kind)
    values = {}
    for name, value in raw.items():
        given, end = (None, f" (given by {source})") if isinstance(source, str) else (source(name), "")
        if name not in known:
            meant = nearest(name, known)
            guess = f" (did you mean {meant}?)" if meant else ""
            allowed = f"{', '.join(known)}{end}"
            raise SettingError(place + name, _Word(f"unknown{guess}"), allowed, given)
        rule = known[name].metadata["rule"]
        try:
            values[known[name].name] = rule.parse(_as_text(value))
        except (ValueError, InvalidArgumentError):
            shown = _Word("hidden") if known[name].metadata.get("secret") else value
            raise SettingError(place + name, shown, f"{rule.allowed}{end}", given) from None
    return values


def _given(values: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in values.items() if value is not None}


def _as_text(value: object) -> str:
    """The text that a user would have typed for this value of a TOML file."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | str):
        return str(value)
    raise ValueError(value)


def _declarations(
    kind: type[Any], name: str, tables: object, defaults: dict[str, Any], path: object
) -> tuple[Any, ...]:
    """The tables ``[[name]]`` of the file at ``path``, as declarations of names."""
    found: dict[str, object] = {}
    for index, table in enumerate(_tables(name, tables, path)):
        place = f"{name}[{index}]."
        if "name" not in table:
            allowed = _by_name(kind)["name"].metadata["rule"].allowed
            raise SettingError(f"{place}name", _Word("missing"), f"{allowed} (to be given by {path})")
        declaration = kind(**_read(kind, {**defaults, **table}, str(path), place))
        if declaration.name in found:
            raise SettingError(
                f"{place}name", declaration.name, f"a name that no other table has (given by {path})"
            )
        found[declaration.name] = declaration
    return tuple(found.values())


def _tables(name: str, tables: object, path: object) -> list[dict[str, Any]]:
    """The tables ``[[name]]`` of the file at ``path``."""
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise SettingError(name, tables, f"[[{name}]] tables (given by {path})")
    return tables
