"""The schema of the settings file: published, and no wider or narrower than what reads the file."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from mocketmq.errors import SettingError
from mocketmq.settings import Settings
from mocketmq.settings_schema import settings_schema
from mocketmq.settings_sources import load_settings, options

ROOT = Path(__file__).parents[2]
SCHEMA = settings_schema()
CHECK = Draft202012Validator(SCHEMA)


def test_the_published_schema_is_the_one_that_the_command_prints() -> None:
    """After a change: ``mocketmq schema > docs/settings.schema.json``."""
    assert json.loads((ROOT / "docs" / "settings.schema.json").read_text()) == SCHEMA
    CHECK.check_schema(SCHEMA)


def test_every_key_of_the_file_is_in_the_schema() -> None:
    declared = {field for field, _ in Settings.declared.values()}
    tables = {*Settings.__struct_fields__} - declared - {"file", "declared_brokers"}
    assert SCHEMA["properties"].keys() == {option.name for option in options()} | tables


WHOLE = """
clock = "manual"
http_port = 0
remoting = false
auto_create_topics = "send"
max_message_bytes = "1M"
retain_size = 0
max_wait = "1m30s"
profile = "exact"
[[topics]]
name = "orders"
read_queues = 8
brokers = ["one=2", "two"]
[[topics]]
name = "chats"
type = "lite"
lite_expiration = 60
[[brokers]]
name = "one"
port = 20911
vip_port = 20909
grpc_port = 20081
advertise = "one.test"
[[brokers]]
name = "two"
advertise = "two.test:10911"
[[groups]]
name = "billing"
fifo = true
[[groups]]
name = "agents"
lite_parent = "chats"
lite_exclusive = true
lite_wildcard = false
lite_quota = 100
[[faults]]
do = "refuse"
error = "SYSTEM_BUSY"
[[messages]]
topic = "orders"
body_json = { id = 7 }
sent_at = "-1d"
failed = { billing = 2 }
[[progress]]
group = "billing"
topic = "orders"
lag = 3
"""


def test_what_the_broker_reads_is_valid(tmp_path: Path) -> None:
    (tmp_path / "mocketmq.toml").write_text(WHOLE)
    load_settings({}, {}, tmp_path / "mocketmq.toml")
    CHECK.validate(tomllib.loads(WHOLE))


@pytest.mark.parametrize(
    "text",
    [
        'clok = "manual"',
        'profile = "x"',
        "http_port = 70000",
        'remoting = "maybe"',
        'auto_create_topics = "never"',
        'max_wait = "3 weeks"',
        'max_message_bytes = "much"',
        "[[topics]]",
        '[[topics]]\nname = "a"\nperm = "x"',
        '[[topics]]\nname = "a"\nlite_expiration = 43201',
        '[[groups]]\nname = "a"\nretry_queues = 65',
        '[[groups]]\nname = "a"\nlite_exclusive = "Exclusive"',
    ],
)
def test_what_the_broker_refuses_is_not_valid(text: str, tmp_path: Path) -> None:
    (tmp_path / "mocketmq.toml").write_text(text)
    with pytest.raises(SettingError):
        load_settings({}, {}, tmp_path / "mocketmq.toml")
    assert not CHECK.is_valid(tomllib.loads(text))


@pytest.mark.parametrize(
    "message",
    [
        {"topic": "orders"},
        {"topic": "orders", "body": "x", "body_json": 1},
        {"topic": "orders", "body": "x", "delay": "3 weeks"},
        {"topic": "orders", "body": "x", "sent_at": "yesterday"},
        {"topic": "orders", "body": "x", "colour": "red"},
        {"topic": "orders", "body": "x", "dead": {"billing": 0}},
    ],
)
def test_a_wrong_message_is_not_valid(message: dict[str, Any]) -> None:
    assert not CHECK.is_valid({"messages": [message]})
