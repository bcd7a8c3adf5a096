"""The command `mocketmq relay` in cases that end before relaying starts."""

import subprocess
import sys

import pytest

from mocketmq.cli import commands
from tests.support.command_line import runner
from tests.support.patience import HANGING_S
from tests.support.process import clean_environment

KAFKA = ("relay", "kafka", "--bootstrap", "127.0.0.1:1", "--topic", "delayed")


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (["--longest", "long"], "--longest is 'long'; allowed: a duration such as"),
        (["--json-bodies", "Mars"], "--json-bodies is 'Mars'; allowed: a time zone such as UTC"),
        (
            ["--pending-topic", "delayed"],
            "--topic, --pending-topic and --refused-topic must name three different topics",
        ),
        (["--kafka-option", "linger=1"], "--kafka-option is 'linger=1'; allowed: NAME=VALUE"),
        (["--scheme", "wheel"], "'wheel' is not one of 'slots', 'sorted', 'memory'"),
    ],
)
def test_wrong_option_is_reported(args: list[str], sentence: str) -> None:
    ended = runner().invoke(commands, [*KAFKA, *args])
    assert ended.exit_code == 2
    assert sentence in ended.stderr


def test_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [name for name in sys.modules if name.startswith("mocketmq.relay.kafka")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "aiokafka", None)
    ended = runner().invoke(commands, KAFKA)
    assert ended.exit_code == 2
    assert "aiokafka is not installed: install mocketmq with its extra 'relay'" in ended.stderr


def test_unreachable_kafka_is_reported() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "mocketmq", *KAFKA],
        env=clean_environment(),
        check=False,
        timeout=HANGING_S,
        text=True,
        capture_output=True,
    )
    assert (ended.returncode, ended.stdout) == (3, "")
    assert "Error: Kafka cannot be used (KafkaConnectionError: " in ended.stderr
