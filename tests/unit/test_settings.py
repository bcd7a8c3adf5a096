"""Settings: four sources in order, one rule for all, and errors with instructions."""

import re
from pathlib import Path

import pytest
from rich.pretty import pretty_repr

from mocketmq import DEFAULT_URL
from mocketmq.errors import SettingError
from mocketmq.settings import GroupDeclaration, Settings, TopicDeclaration
from mocketmq.settings_sources import load_settings, options

ROOT = Path(__file__).parents[2]
MINUTE_US = 60_000_000
IN_FILE = ("topics", "groups", "declared_brokers", "faults", "messages", "progress", "file")
"""Settings that only the file has, and the file."""


def test_clients_use_the_default_address_of_a_broker() -> None:
    assert f"http://{Settings().host}:{Settings().http_port}" == DEFAULT_URL


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Path where a test may write its TOML file."""
    return tmp_path / "mocketmq.toml"


def test_defaults_apply_without_any_source() -> None:
    settings = load_settings({}, {})
    assert settings == Settings()
    assert settings.data == "mocketmq-data"
    assert settings.http_port == 9877
    assert (settings.remoting, settings.namesrv_port, settings.broker_port) == (True, 9876, 10911)
    assert (settings.grpc, settings.grpc_port) == (True, 8081)
    assert settings.max_message_bytes == 4_194_304
    assert (settings.recall_levels, settings.strict_recall) == (False, False)
    assert (settings.max_pull_messages, settings.max_pull_bytes) == (32, 262_144)
    assert (settings.max_long_poll_us, settings.max_wait_us) == (30_000_000, 30_000_000)
    assert settings.retain_age_us == 72 * 60 * MINUTE_US
    assert settings.retain_bytes == 0
    assert settings.crash_loses == 0
    assert (settings.failover, settings.failover_after_us) == ("none", 10_000_000)
    assert (settings.port, settings.token, settings.advertise) == (None, None, None)
    assert (settings.aliyun_port, settings.access_keys, settings.namesrv_address) == (None, None, None)
    assert (settings.acl, settings.tls) == (None, "permissive")
    assert (settings.tls_cert, settings.tls_key) == (None, None)
    assert settings.aliyun_invisible_us == 5 * MINUTE_US
    assert settings.aliyun_ordered_invisible_us == MINUTE_US
    assert settings.transaction_timeout_us == MINUTE_US // 10
    assert (settings.transaction_check_interval_us, settings.transaction_check_max) == (MINUTE_US, 15)


def test_settings_are_frozen() -> None:
    with pytest.raises(AttributeError):
        Settings().http_port = 1  # type: ignore[misc]


def test_flags_win_over_variables_over_the_file_over_defaults(config: Path) -> None:
    config.write_text('max_wait = "1m"\nhost = "::1"\ntopic_queues = 2\n')
    variables = {"MOCKETMQ_MAX_WAIT": "2m", "MOCKETMQ_HOST": "::2", "PATH": "/bin"}
    settings = load_settings({"max_wait": "3m", "host": None}, variables, config)
    assert settings.max_wait_us == 3 * MINUTE_US
    assert settings.host == "::2"
    assert settings.topic_queues == 2
    assert settings.profile == "exact"


def test_settings_file_is_named_by_argument_or_variable(config: Path) -> None:
    config.write_text("topic_queues = 2")
    assert load_settings({}, {"MOCKETMQ_CONFIG": str(config)}).topic_queues == 2
    assert load_settings({}, {"MOCKETMQ_CONFIG": "/nowhere"}, config).topic_queues == 2


def test_unrelated_variables_are_ignored() -> None:
    variables = {"MOCKETMQ_URL": "http://broker:9877", "MOCKETMQ_FAILPOINT": "x", "MOCKETMQ_TOKEN": ""}
    assert load_settings({}, variables) == Settings()


@pytest.mark.parametrize(
    ("name", "text", "field", "value"),
    [
        ("data", ":memory:", "data", ":memory:"),
        ("http_port", "0", "http_port", 0),
        ("clock", "manual", "clock", "manual"),
        ("clock", "x0.5", "clock", "x0.5"),
        ("clock", "x1000000", "clock", "x1000000"),
        ("profile", "rocketmq4", "profile", "rocketmq4"),
        ("levels", "1s 2h", "levels", "1s 2h"),
        ("start_deliver_time", "dongwo", "start_deliver_time", "dongwo"),
        ("start_deliver_window", "7d", "start_deliver_window_us", 7 * 1440 * MINUTE_US),
        ("durability", "normal", "durability", "normal"),
        ("auto_create_topics", "false", "auto_create_topics", False),
        ("auto_create_topics", "send", "auto_create_topics", "send"),
        ("max_message_bytes", "64K", "max_message_bytes", 65_536),
        ("max_pull_messages", "1024", "max_pull_messages", 1_024),
        ("max_pull_bytes", "15M", "max_pull_bytes", 15 << 20),
        ("recall_levels", "true", "recall_levels", True),
        ("strict_recall", "true", "strict_recall", True),
        ("max_long_poll", "100ms", "max_long_poll_us", 100_000),
        ("mixed_message_type", "true", "mixed_message_type", True),
        ("server_version", "4.9.8", "server_version", 409),
        ("server_version", "5.3.3", "server_version", 479),
        ("max_wait", "5m", "max_wait_us", 5 * MINUTE_US),
        ("retain_age", "0", "retain_age_us", 0),
        ("retain_size", "2G", "retain_bytes", 2 << 30),
        ("log_level", "debug", "log_level", "debug"),
        ("aliyun_port", "0", "aliyun_port", 0),
        ("access_keys", "LTAI5:s3cret", "access_keys", {"LTAI5": "s3cret"}),
        ("access_keys", "a:b, c:d:e==", "access_keys", {"a": "b", "c": "d:e=="}),
        ("acl", "conf/plain_acl.yml", "acl", "conf/plain_acl.yml"),
        ("tls", "enforcing", "tls", "enforcing"),
        ("tls_cert", "broker.crt", "tls_cert", "broker.crt"),
        ("tls_key", "broker.key", "tls_key", "broker.key"),
        ("namesrv_address", "names.test:9876", "namesrv_address", "names.test:9876"),
        ("namesrv_address", "[::1]:9876", "namesrv_address", "[::1]:9876"),
        ("remoting", "false", "remoting", False),
        ("namesrv_port", "65535", "namesrv_port", 65_535),
        ("broker_port", "0", "broker_port", 0),
        ("advertise", "10.0.0.7", "advertise", "10.0.0.7"),
        ("advertise", "broker.test:1234", "advertise", "broker.test:1234"),
        ("advertise", "[::1]", "advertise", "[::1]"),
        ("advertise", "[::1]:1234", "advertise", "[::1]:1234"),
        ("aliyun_invisible", "1ms", "aliyun_invisible_us", 1_000),
        ("aliyun_ordered_invisible", "12h", "aliyun_ordered_invisible_us", 720 * MINUTE_US),
    ],
)
def test_every_source_is_parsed_by_the_same_rule(
    name: str, text: str, field: str, value: object, config: Path
) -> None:
    config.write_text(f'{name} = "{text}"')
    for settings in (
        load_settings({name: text}, {}),
        load_settings({}, {f"MOCKETMQ_{name.upper()}": text}),
        load_settings({}, {}, config),
    ):
        assert getattr(settings, field) == value


def test_native_values_of_file_and_flags_are_understood(config: Path) -> None:
    config.write_text("http_port = 0\nauto_create_groups = false\nretain_size = 1048576")
    settings = load_settings({"auto_create_topics": False}, {}, config)
    assert settings.http_port == 0
    assert not settings.auto_create_groups
    assert not settings.auto_create_topics
    assert settings.retain_bytes == 1 << 20


def test_port_0_applies_to_every_listener_without_its_own_port() -> None:
    settings = load_settings({"port": 0}, {})
    assert (settings.http_port, settings.namesrv_port, settings.broker_port, settings.grpc_port) == (
        0,
        0,
        0,
        0,
    )
    assert load_settings({"port": "0"}, {"MOCKETMQ_HTTP_PORT": "1234"}).http_port == 1234


def test_port_0_opens_no_disabled_port() -> None:
    assert load_settings({"port": 0}, {}).aliyun_port is None
    assert load_settings({"port": 0, "aliyun_port": 0}, {}).aliyun_port == 0


def test_failover_needs_slaves() -> None:
    with pytest.raises(SettingError, match="failover is 'controller'; allowed: none without slaves"):
        load_settings({"failover": "controller"}, {})
    assert load_settings({"failover": "controller", "slaves": "1"}, {}).failover == "controller"


@pytest.mark.parametrize(
    ("name", "text", "allowed"),
    [
        ("server_version", "5.5", "a release of RocketMQ from 4.0.0 to 5.9.9"),
        ("data", "", "not empty"),
        ("http_port", "65536", "0 to 65535"),
        ("http_port", "-1", "0 to 65535"),
        ("http_port", "http", "0 to 65535"),
        ("http_port", True, "0 to 65535"),
        ("http_port", 1.5, "0 to 65535"),
        ("port", "9877", "0, which picks free ports; --http-port (http_port) sets the port of HTTP"),
        ("clock", "x0", "above 0 and up to 1000000"),
        ("clock", "x1000001", "above 0 and up to 1000000"),
        ("clock", "xnan", "above 0 and up to 1000000"),
        ("clock", "fast", "real, manual, or xN"),
        ("profile", "dongwo", "exact or rocketmq4"),
        ("start_deliver_time", "aliyun", "aliyun4 or aliyun5 or dongwo"),
        ("start_deliver_window", "36501d", "from 0 to 36500d"),
        (
            "delay_limits",
            "nonsense",
            "aliyun4 or aliyun5 or aliyun5-standard or huawei or huawei5 or cmq or sqs or",
        ),
        ("durability", "none", "full or normal"),
        ("tls", "on", "permissive or enforcing or disabled"),
        ("auto_create_topics", "maybe", "true, send or false"),
        ("brokers", "0", "1 to 8"),
        ("brokers", "9", "1 to 8"),
        ("slaves", "2", "0 to 1"),
        ("failover", "raft", "none or acting-master or controller"),
        ("failover_after", "2h", "from 1ms to 1h"),
        ("crash_loses", "something", "nothing, unreplicated, or a duration such as 200ms, up to 1h"),
        ("crash_loses", "61m", "nothing, unreplicated, or a duration such as 200ms, up to 1h"),
        ("name_servers", "0", "1 to 8"),
        ("proxy_mode", "own", "cluster or local"),
        ("name_servers", "9", "1 to 8"),
        ("topic_queues", "0", "1 to 1024"),
        ("max_message_bytes", "0", "from 1 to 15M"),
        ("max_message_bytes", "16M", "from 1 to 15M"),
        ("max_message_bytes", "M", "from 1 to 15M"),
        ("max_pull_messages", "0", "1 to 1024"),
        ("max_pull_bytes", "16M", "from 1 to 15M"),
        ("max_long_poll", "99ms", "from 100ms to 5m"),
        ("max_long_poll", "5m1us", "from 100ms to 5m"),
        ("max_wait", "5m1us", "from 0 to 5m"),
        ("max_wait", "30", "from 0 to 5m"),
        ("retain_age", ["1d"], "from 0 to 36500d"),
        ("retain_size", "-1", "from 0 to 1000000G"),
        ("otlp_endpoint", "localhost:4318", "a URL such as http://localhost:4318, with http or https"),
        ("otlp_endpoint", "http://", "a URL such as http://localhost:4318, with http or https"),
        ("otlp_endpoint", "http://user:secret@collector", "a URL such as http://localhost:4318"),
        ("log_level", "INFO", "debug or info or warning or error"),
        ("aliyun_port", "65536", "0 to 65535"),
        ("aliyun_invisible", "0", "from 1ms to 12h"),
        ("aliyun_ordered_invisible", "12h1ms", "from 1ms to 12h"),
        ("namesrv_address", "names.test", "host:port"),
        ("namesrv_address", "a:1;b:2", "host:port"),
        ("namesrv_address", "::1:9876", "host:port"),
        ("remoting", "off", "true or false"),
        ("namesrv_port", "65536", "0 to 65535"),
        ("broker_port", "off", "0 to 65535"),
        ("advertise", "::1", "host or host:port"),
        ("advertise", "a:b", "host or host:port"),
        ("advertise", "a:1,b:2", "host or host:port"),
        ("advertise", "", "host or host:port"),
        ("advertise", "..", "host or host:port"),
        ("advertise", "[:::::]:5", "an IPv6 address in [ and ]"),
        ("advertise", "broker.test:0", "a port from 1 to 65535"),
        ("namesrv_address", "names.test:65536", "a port from 1 to 65535"),
    ],
)
def test_wrong_value_is_refused_with_flag_and_allowed_values(name: str, text: object, allowed: str) -> None:
    with pytest.raises(SettingError) as refused:
        load_settings({name: text}, {})
    assert refused.value.field == name
    assert str(refused.value).startswith(f"--{name.replace('_', '-')} is {text!r}; allowed: ")
    assert allowed in refused.value.allowed


def test_the_error_names_the_variable_or_the_file(config: Path) -> None:
    with pytest.raises(SettingError, match=r"^MOCKETMQ_PROFILE is 'x'; allowed: exact"):
        load_settings({"host": "::1"}, {"MOCKETMQ_PROFILE": "x"})
    config.write_text('profile = "x"')
    with pytest.raises(SettingError, match=r"^setting profile is .* \(given by .*toml, line 1, column 11\)"):
        load_settings({"profile": "exact"}, {}, config)


def test_unknown_names_are_refused_without_their_value(config: Path) -> None:
    config.write_text('tokn = "hush"')
    with pytest.raises(
        SettingError, match=r"setting tokn is unknown \(did you mean token\?\); allowed: .*\btoken\b"
    ) as refused:
        load_settings({}, {}, config)
    assert "hush" not in str(refused.value)
    config.write_text('[[topic]]\nname = "orders"')
    with pytest.raises(SettingError, match=r"setting topic is unknown \(did you mean topics\?\)"):
        load_settings({}, {}, config)


def test_levels_in_a_list_are_refused_with_their_format(config: Path) -> None:
    config.write_text('levels = ["1s", "5s"]')
    with pytest.raises(
        SettingError, match=r"levels is \['1s', '5s'\]; allowed: a text of delays such as 10s"
    ):
        load_settings({}, {}, config)


def test_variable_without_effect_is_named_with_the_nearest(caplog: pytest.LogCaptureFixture) -> None:
    variables = {
        "TOKN": "hush",
        "SERVICE_HOST": "10.0.0.1",
        "DATA": "x",
        "URL": "x",
        "LEVELSS": "",
        "host": "x",
    }
    given = {f"MOCKETMQ_{name}": text for name, text in variables.items()}
    assert load_settings({}, given | {"MOCKETMQ": "x"}).data == "x"
    assert [record.message for record in caplog.records] == [
        "the variable MOCKETMQ_TOKN has no effect; did you mean MOCKETMQ_TOKEN?",
        "the variable MOCKETMQ_SERVICE_HOST has no effect",
        "the variable MOCKETMQ_host has no effect; did you mean MOCKETMQ_HOST?",
    ]


@pytest.mark.parametrize("text", ["", "two words", "café", "x" * 257])
def test_a_bad_token_is_refused_and_never_shown(text: str) -> None:
    with pytest.raises(SettingError) as refused:
        load_settings({"token": text}, {})
    assert str(refused.value).startswith("--token is hidden; allowed: 1 to 256 visible")
    assert refused.value.__suppress_context__


@pytest.mark.parametrize(
    "text", ["", "hush", "id:", ":hush", "id:hush,", "id:hush,id:hush", "id:hush other:word", "clé:hush"]
)
def test_bad_access_keys_are_refused_and_never_shown(text: str) -> None:
    with pytest.raises(SettingError) as refused:
        load_settings({"access_keys": text}, {})
    assert str(refused.value).startswith("--access-keys is hidden; allowed: id:secret pairs")
    assert refused.value.__suppress_context__


def test_secrets_are_not_in_the_repr(config: Path) -> None:
    config.write_text('access_keys = "id:quiet"')
    settings = load_settings({}, {"MOCKETMQ_TOKEN": "hush"}, config)
    assert settings.token == "hush"  # noqa: S105
    assert settings.access_keys == {"id": "quiet"}
    assert "hush" not in repr(settings)
    assert "quiet" not in repr(settings)
    shown = pretty_repr(settings, max_width=10_000)
    assert "hush" not in shown
    assert "quiet" not in shown
    assert "http_port=" in shown


@pytest.mark.parametrize("content", [b"host = ", b"\xff", None])
def test_a_bad_file_is_refused_with_its_path(content: bytes | None, config: Path) -> None:
    if content is not None:
        config.write_bytes(content)
    with pytest.raises(SettingError, match=r"allowed: a readable TOML file \(.*/mocketmq\.toml: "):
        load_settings({}, {}, config)


def test_the_file_declares_topics_and_groups(config: Path) -> None:
    config.write_text(
        """
        topic_queues = 2
        [[topics]]
        name = "orders"
        [[topics]]
        name = "audit"
        write_queues = 1
        perm = "r"
        [[groups]]
        name = "billing"
        max_retries = 3
        """
    )
    settings = load_settings({"topic_queues": 8}, {}, config)
    assert settings.topics == (
        TopicDeclaration(name="orders", read_queues=8, write_queues=8),
        TopicDeclaration(name="audit", read_queues=8, write_queues=1, perm="r"),
    )
    assert settings.groups == (GroupDeclaration(name="billing", max_retries=3),)


def test_the_page_of_lite_topics_declares_them(config: Path) -> None:
    [declared] = re.findall(r"```toml\n(.*?)```", (ROOT / "docs" / "lite-topics.md").read_text(), re.DOTALL)
    config.write_text(declared)
    settings = load_settings({}, {}, config)
    assert settings.topics == (TopicDeclaration(name="chats", type="lite", lite_expiration=60),)
    assert settings.groups == (
        GroupDeclaration(name="agents", lite_parent="chats", lite_exclusive=True, lite_quota=100),
    )


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("topics = 1", r"setting topics is 1; allowed: \[\[topics\]\] tables"),
        ("topics = ['orders']", r"setting topics is .*; allowed: \[\[topics\]\] tables"),
        (
            "[[groups]]",
            r"setting groups\[0\]\.name is missing; allowed: 1 to 255 char.*toml, line ., column .\)",
        ),
        ("[[topics]]\nname = 'a'\nperm = 'x'", r"setting topics\[0\]\.perm is 'x'; allowed: rw or r or w \("),
        (
            "[[topics]]\nname = 'a'\ncolour = 1",
            r"setting topics\[0\]\.colour is unknown; allowed: name, read_",
        ),
        (
            "[[topics]]\nname = 'a'\n[[topics]]\nname = 'a'",
            r"setting topics\[1\]\.name is 'a'; allowed: a name that no other table has \(",
        ),
        (
            "[[topics]]\nname = 'a'\n[[topics]]\nname = 'b'\nread_queues = 0",
            r"setting topics\[1\]\.read_queues is 0; allowed: a whole number from 1 to 1024 \(",
        ),
        (
            "[[groups]]\nname = 'a'\nretry_queues = 65",
            r"setting groups\[0\]\.retry_queues is 65; allowed: a whole number from 1 to 64 \(",
        ),
        (
            "[[topics]]\nname = 'a'\nlite_expiration = 'never'",
            r"setting topics\[0\]\.lite_expiration is 'never'; allowed: a whole number from -1 to 43200 \(",
        ),
        (
            "[[groups]]\nname = 'a'\nlite_parent = 'a.b'",
            r"setting groups\[0\]\.lite_parent is 'a\.b'; allowed: 1 to 127 char.*toml, line 3, column 15\)",
        ),
        (
            "[[topics]]\nname = 'a.b'",
            r"setting topics\[0\]\.name is 'a\.b'; allowed: 1 to 127 characters .*toml, line ., column .\)",
        ),
        (
            "[[topics]]\nname = 'SCHEDULE_TOPIC_XXXX'",
            r"setting topics\[0\]\.name is 'SCHEDULE_TOPIC_XXXX'; .*not the name of a system topic \(",
        ),
        (
            "[[groups]]\nname = ''",
            r"setting groups\[0\]\.name is ''; allowed: 1 to 255 characters .*toml, line ., column .\)",
        ),
    ],
)
def test_a_wrong_declaration_is_refused_with_its_place(content: str, text: str, config: Path) -> None:
    config.write_text(content)
    with pytest.raises(SettingError, match=text):
        load_settings({}, {}, config)


def test_options_offer_every_setting_but_the_declarations() -> None:
    offered = options()
    assert len(offered) == len(Settings.__struct_fields__) - len(
        ("topics", "groups", "declared_brokers", "faults", "messages", "progress", "file")
    )
    assert all(option.help for option in offered)
    defaults = {option.name: option.default for option in offered if option.default}
    assert load_settings(defaults, {}) == Settings()
    max_wait = next(option for option in offered if option.name == "max_wait")
    assert (max_wait.flag, max_wait.default, max_wait.is_bool) == ("--max-wait", "30s", False)
    assert {option.flag for option in offered if option.is_bool} == {
        "--remoting",
        "--grpc",
        "--auto-create-groups",
        "--mixed-message-type",
        "--recall-levels",
        "--strict-recall",
    }
