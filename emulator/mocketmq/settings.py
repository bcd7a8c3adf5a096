"""The settings, each with one declaration of its type, default, allowed values and help.

To add a setting, declare it in :class:`Settings` and read it where it is used. The flag, the variable, the
key in the TOML file, the checks and ``mocketmq serve --help`` follow from the declaration. The
module :mod:`mocketmq.settings_sources` merges the sources.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import msgspec

from mocketmq import invisible_time
from mocketmq import setting_rules as rules
from mocketmq.message.broker_share import broker_names
from mocketmq.message.message_types import MessageType
from mocketmq.message.names import MAX_BROKERS, MAX_NAME_SERVERS
from mocketmq.settings_file import SettingsFile

Profile = Literal["exact", "rocketmq4"]
Durability = Literal["full", "normal"]
LogLevel = Literal["debug", "info", "warning", "error"]
TopicPermission = Literal["rw", "r", "w"]
DelaySync = Literal["always", "interval", "never"]
ProxyMode = Literal["cluster", "local"]
FailoverMode = Literal["none", "acting-master", "controller"]
TlsMode = Literal["permissive", "enforcing", "disabled"]
AutoCreate = bool | Literal["send"]
TimedSchemeName = Literal["directories", "wheel", "slots", "sorted"]
StartDeliverMode = Literal["aliyun4", "aliyun5", "dongwo"]
DelayLimitsName = Literal[
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


class Setting(msgspec.Struct, frozen=True):
    """The declaration of a setting, or of a field of a table of the file."""

    rule: rules.Rule
    default: str | None
    help: str
    name: str
    is_secret: bool


class _Declared(msgspec.StructMeta):
    """Makes a class whose fields have the defaults of their declarations, which are kept in ``declared``."""

    def __new__(
        cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any
    ) -> "_Declared":
        declared = {field: each for field, each in namespace.items() if isinstance(each, Setting)}
        for field, each in declared.items():
            if each.default is None:
                del namespace[field]
            else:
                namespace[field] = each.rule.parse(each.default) if each.default else None
        namespace["declared"] = {each.name or field: (field, each) for field, each in declared.items()}
        return super().__new__(cls, name, bases, namespace, **options)


class Declaration(msgspec.Struct, metaclass=_Declared, frozen=True, kw_only=True):
    """The values of declared settings. A dataclass with so many fields takes 4 ms more to create, and 140 KB.

    ``declared`` maps the name that users see to the field and the declaration of each setting.
    """

    declared: ClassVar[Mapping[str, tuple[str, Setting]]]

    def __repr__(self) -> str:
        shown = (f"{field}={value!r}" for field, value in self.__rich_repr__())
        return f"{type(self).__name__}({', '.join(shown)})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        """The fields that are not secret, with their values. msgspec would show all."""
        return [(field, getattr(self, field)) for field, each in self.declared.values() if not each.is_secret]


def _setting(
    default: str | None, rule: rules.Rule, help_text: str = "", *, name: str = "", secret: bool = False
) -> Any:
    """Declare a setting. The default is text as a user would write it; empty text means None.

    Without a default, the value must be given.

    ``name`` is the name for users if it differs from the field's name. Secrets are never shown.
    """
    return Setting(rule, default, help_text, name, secret)


class TopicDeclaration(Declaration, frozen=True, kw_only=True):
    """A declared topic, which exists from the start. Numbers of queues default to ``topic_queues``."""

    name: str = _setting(None, rules.TOPIC)
    read_queues: int = _setting("4", rules.QUEUES)
    write_queues: int = _setting("4", rules.QUEUES)
    perm: TopicPermission = _setting("rw", rules.choice(TopicPermission))
    # The attribute message.type, for gRPC clients.
    type: MessageType | None = _setting("", rules.choice(MessageType))
    lite_expiration: int | None = _setting(
        "", rules.whole_number(-1, 43_200), "minutes after the last message at which a lite topic is deleted"
    )
    brokers: Mapping[str, int | None] | None = _setting(
        "", rules.BROKER_QUEUES, "brokers of the cluster that hold the topic; by default, all of them"
    )


class GroupDeclaration(Declaration, frozen=True, kw_only=True):
    """A declared consumer group, which exists from the start."""

    name: str = _setting(None, rules.GROUP)
    max_retries: int = _setting("16", rules.whole_number(0, 1000))
    retry_queues: int = _setting("1", rules.whole_number(1, 64))
    fifo: bool = _setting("false", rules.BOOLEAN)  # gRPC clients consume in order
    lite_parent: str | None = _setting("", rules.TOPIC, "topic whose lite topics the group consumes")
    lite_exclusive: bool | None = _setting(
        "", rules.BOOLEAN, "each lite topic is consumed by one client at a time"
    )
    lite_wildcard: bool | None = _setting("", rules.BOOLEAN, "each client consumes all lite topics")
    lite_quota: int | None = _setting(
        "", rules.whole_number(-1, 100_000), "largest number of lite topics that a client may subscribe to"
    )


class BrokerDeclaration(Declaration, frozen=True, kw_only=True):
    """A declared broker of the cluster. By default, ports are as for brokers that are not declared."""

    name: str = _setting(None, rules.BROKER)
    id: int | None = _setting("", rules.MASTER_ID, "id in routes")
    slave_id: int | None = _setting(
        "", rules.SLAVE_ID, "id of the broker's slave in routes, with slaves; by default, 1"
    )
    port: int | None = _setting("", rules.OWN_PORT, "port for RocketMQ clients")
    vip_port: int | None = _setting("", rules.OWN_PORT, "port of the VIP channel; by default, two below port")
    slave_port: int | None = _setting(
        "", rules.OWN_PORT, "port of the broker's slave, with slaves; by default, four above port"
    )
    grpc_port: int | None = _setting(
        "", rules.OWN_PORT, "port of the broker's endpoint for gRPC, with proxy_mode local"
    )
    advertise: str | None = _setting(
        "", rules.HOST, "host or host:port to give to clients; set it for all brokers or for none"
    )


class Settings(Declaration, frozen=True, kw_only=True):
    """The settings of a broker. Fields in ``_us`` are microseconds, fields in ``_bytes`` bytes."""

    data: str = _setting("mocketmq-data", rules.TEXT, "data directory, or :memory: to keep nothing")
    snapshots: str | None = _setting(
        "", rules.TEXT, "directory of snapshots; by default snapshots/ in data, or memory for data :memory:"
    )
    host: str = _setting("127.0.0.1", rules.TEXT, "address on which all ports listen")
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
    brokers: int = _setting(
        "1",
        rules.whole_number(1, MAX_BROKERS),
        "number of brokers in the cluster: broker-a, broker-b and so on; each port is 10 above the"
        " previous one (docs/brokers.md)",
    )
    slaves: int = _setting(
        "0",
        rules.whole_number(0, 1),
        "number of slaves of each broker, from which consumers pull while the broker is down; a slave's port"
        " is 4 above its broker's port (docs/brokers.md)",
    )
    failover: FailoverMode = _setting(
        "none",
        rules.choice(FailoverMode),
        "what happens when a broker has been silent for failover_after: nothing (none), its slave serves"
        " consumers but accepts no messages (acting-master), or its slave is promoted (controller)",
    )
    failover_after_us: int = _setting(
        "10s",
        rules.duration("1h", "1ms"),
        "how long a broker must be silent, by the broker's clock, before its failover",
        name="failover_after",
    )
    crash_loses: rules.CrashLoss = _setting(
        "nothing",
        rules.CRASH_LOSS,
        "what a crash of a broker loses: nothing, the messages of a time before the crash, such as 200ms, or"
        " the messages not yet replicated to its slave (unreplicated)",
    )
    name_servers: int = _setting(
        "1",
        rules.whole_number(1, MAX_NAME_SERVERS),
        "number of name servers in the cluster; each port is 10 above the previous one (docs/brokers.md)",
    )
    grpc: bool = _setting("true", rules.BOOLEAN, "serve the clients of RocketMQ 5, which speak gRPC")
    grpc_port: int = _setting("8081", rules.PORT, "port for gRPC; 0 picks a free one")
    proxy_mode: ProxyMode = _setting(
        "cluster",
        rules.choice(ProxyMode),
        "endpoint that gRPC clients use: one for the cluster, or with local one for each broker, each port 10"
        " above the previous one (docs/grpc.md)",
    )
    advertise: str | None = _setting(
        "",
        rules.HOST,
        "host or host:port of the broker to give to clients; by default, the address that each client used",
    )
    namesrv_address: str | None = _setting(
        "",
        rules.ADDRESS,
        "host:port of the name server to give to clients that ask over HTTP, instead of the broker's own",
    )
    port: int | None = _setting(
        "", rules.ZERO, "0 picks a free port for each listener without a port setting"
    )
    ready_file: str | None = _setting(
        "", rules.TEXT, "file that names the ports, as JSON; it exists while the broker is ready"
    )
    record: str | None = _setting(
        "", rules.TEXT, "file to which every sent message is recorded, for `mocketmq replay`"
    )
    record_requests: str | None = _setting(
        "",
        rules.TEXT,
        "file to which every request and its answer is recorded, for `mocketmq replay`"
        " (docs/record-and-replay.md)",
    )
    record_mask: str | None = _setting(
        "",
        rules.TEXT,
        "what to mask in both recordings, separated by commas: body.phone, properties.NAME, keys, tag, …;"
        " =hash after a place hashes its values instead",
    )
    clock: str = _setting("real", rules.CLOCK, "how time runs: real, manual, or xN for N times as fast")
    profile: Profile = _setting(
        "exact", rules.choice(Profile), "timing of the delay levels: exact, or rocketmq4, as in RocketMQ 4"
    )
    levels: str = _setting(
        "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h",
        rules.LEVELS,
        "delays of the delay levels, from level 1 on",
    )
    lateness_from: str | None = _setting(
        "", rules.TEXT, "report.json or ledger of a real cluster, whose lateness delayed deliveries copy"
    )
    lateness_seed: int = _setting(
        "0", rules.whole_number(0, (1 << 63) - 1), "seed of the lateness drawn from lateness_from"
    )
    start_deliver_time: StartDeliverMode = _setting(
        "aliyun4", rules.choice(StartDeliverMode), "rules for __STARTDELIVERTIME: aliyun4, aliyun5 or dongwo"
    )
    start_deliver_window_us: int = _setting(
        "40d",
        rules.duration("36500d"),
        "largest lead of __STARTDELIVERTIME; aliyun4 refuses a longer one, aliyun5 delivers it at once,"
        " and dongwo keeps it",
        name="start_deliver_window",
    )
    delay_limits: DelayLimitsName | None = _setting(
        "",
        rules.choice(DelayLimitsName),
        "apply the delay limits of another system: longest delay, rounding, head-of-line blocking"
        " (docs/delay-limits.md)",
    )
    timed_scheme: TimedSchemeName = _setting(
        "directories",
        rules.choice(TimedSchemeName),
        "the delay scheme that keeps messages with an absolute due time: directories, wheel, slots or sorted",
    )
    durability: Durability = _setting(
        "full",
        rules.choice(Durability),
        "whether acknowledged messages survive a power cut (full) or only a kill (normal)",
    )
    delay_sync: DelaySync = _setting(
        "always",
        rules.choice(DelaySync),
        "when files of delayed messages are synced to disk: before a send is answered"
        " (always), every second (interval), or when the operating system does it (never)",
    )
    delay_quota_bytes: int = _setting(
        "0",
        rules.size("0", "1000000G"),
        "largest disk space for files of delayed messages; 0 sets no limit",
        name="delay_quota",
    )
    token: str | None = _setting(
        "",
        rules.TOKEN,
        "secret that all requests to the JSON API must carry, except health checks",
        secret=True,
    )
    access_keys: Mapping[str, str] | None = _setting(
        "",
        rules.KEYS,
        "id:secret pairs; RocketMQ clients and Aliyun's HTTP clients must sign requests with one",
        secret=True,
    )
    security_tokens: Mapping[str, str] | None = _setting(
        "",
        rules.SECURITY_TOKENS,
        "id:token pairs; Aliyun's HTTP clients with such an access key must send its STS token",
        secret=True,
    )
    acl: str | None = _setting(
        "",
        rules.TEXT,
        "file of accounts with permissions, in the format of RocketMQ's plain_acl.yml, or of users with"
        " policies, as in RocketMQ 5",
    )
    tls: TlsMode = _setting(
        "permissive", rules.choice(TlsMode), "TLS for RocketMQ clients: permissive, enforcing or disabled"
    )
    tls_cert: str | None = _setting(
        "", rules.TEXT, "certificate, a PEM file; without one, a self-signed certificate is made"
    )
    tls_key: str | None = _setting(
        "", rules.TEXT, "key of the certificate, a PEM file, unless the certificate's file contains it"
    )
    auto_create_topics: AutoCreate = _setting(
        "true",
        rules.AUTO_CREATE,
        "create topics when a client first asks for their route (true), or first sends to them (send, and in"
        " profile rocketmq4), or never (false)",
    )
    auto_create_groups: bool = _setting("true", rules.BOOLEAN, "create consumer groups on first use")
    topic_queues: int = _setting("4", rules.QUEUES, "queues of a topic created on first use")
    server_version: int = _setting(
        "5.5.0",
        rules.VERSION,
        "version of RocketMQ to report to clients and mqadmin; where RocketMQ 4 and 5 answer differently,"
        " the broker follows this version",
    )
    mixed_message_type: bool = _setting(
        "false",
        rules.BOOLEAN,
        "let RocketMQ's tools set message.type to MIXED; a topic without this attribute also accepts all"
        " types",
    )
    max_message_bytes: int = _setting(
        "4M", rules.size("1", "15M"), "largest body of a message; a RocketMQ frame holds 16M in total"
    )
    max_pull_messages: int = _setting(
        "32", rules.whole_number(1, 1024), "largest number of messages in the answer to a pull"
    )
    max_pull_bytes: int = _setting(
        "256K",
        rules.size("1", "15M"),
        "largest number of bytes in the answer to a pull, unless its first message is larger",
    )
    recall_levels: bool = _setting(
        "false", rules.BOOLEAN, "also give handles to recall messages that are delayed by level"
    )
    strict_recall: bool = _setting(
        "false",
        rules.BOOLEAN,
        "refuse to recall a message that is not pending; RocketMQ answers with success",
    )
    max_long_poll_us: int = _setting(
        "30s",
        rules.duration("5m", "100ms"),
        "longest long poll of a RocketMQ or Aliyun client; a longer one ends empty after this time",
        name="max_long_poll",
    )
    max_wait_us: int = _setting(
        "30s",
        rules.duration("5m"),
        "longest wait that a request to the JSON API may ask for, such as an assertion of a test",
        name="max_wait",
    )
    aliyun_invisible_us: int = _setting(
        invisible_time.ALIYUN_DEFAULT,
        rules.duration(invisible_time.LONGEST, "1ms"),
        "invisible time of messages received over Aliyun's HTTP protocol",
        name="aliyun_invisible",
    )
    aliyun_ordered_invisible_us: int = _setting(
        invisible_time.ALIYUN_ORDERED_DEFAULT,
        rules.duration(invisible_time.LONGEST, "1ms"),
        "invisible time of messages received in order over Aliyun's HTTP protocol",
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
        "15", rules.whole_number(1, 1000), "number of check backs before a half message is discarded"
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
    otlp_endpoint: str | None = _setting(
        "",
        rules.ENDPOINT,
        "URL of an OpenTelemetry collector for traces of messages and for metrics, by OTLP over HTTP, such as"
        " http://localhost:4318; needs the extra 'otlp' (docs/metrics.md)",
    )
    log_level: LogLevel = _setting("info", rules.choice(LogLevel), "least severe log lines to show")
    topics: tuple[TopicDeclaration, ...] = ()
    groups: tuple[GroupDeclaration, ...] = ()
    declared_brokers: tuple[BrokerDeclaration, ...] = ()  # from [[brokers]]: none, or as many as ``brokers``
    # Fault rules are not checked here; the app checks them when it adds them to the broker.
    faults: tuple[Mapping[str, object], ...] = ()
    messages: tuple[Mapping[str, object], ...] = ()
    progress: tuple[Mapping[str, object], ...] = ()
    file: SettingsFile | None = None

    @property
    def broker_names(self) -> tuple[str, ...]:
        """The names of the cluster's brokers."""
        return tuple(each.name for each in self.declared_brokers) or broker_names(self.brokers)

    def place_of(self, name: str) -> str:
        """The file, the line and the column of a setting that only the file can contain."""
        return "the settings" if self.file is None else self.file.place_of(name)
