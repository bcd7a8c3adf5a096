"""docs/messages.md lists exactly the words for records, events and states that the code uses."""

import re
from pathlib import Path
from typing import get_args

import pytest

from mocketmq.broker.life import Consumption, EventKind, MessageState
from mocketmq.message.message import RecordKind

DOCUMENT = Path(__file__).parents[2] / "docs" / "messages.md"


@pytest.mark.parametrize(
    ("heading", "words"),
    [
        ("Records", get_args(RecordKind)),
        ("Events", get_args(EventKind)),
        ("States", get_args(MessageState)),
        ("Consumption", get_args(Consumption)),
    ],
)
def test_every_word_is_documented(heading: str, words: tuple[str, ...]) -> None:
    section = DOCUMENT.read_text("utf-8").partition(f"## {heading}\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)
    assert sorted(re.findall(r"`([^`]+)`", " ".join(rows))) == sorted(words)
