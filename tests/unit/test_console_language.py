"""The console's catalogues: both languages have every text that the page asks for, with the same fields."""

import json
import re
from importlib.resources import files
from typing import Any, Final, get_args

import pytest

from mocketmq.broker.life import Consumption, EventKind, MessageState
from mocketmq.broker.verification.group_status import GroupState
from mocketmq.faults.injector import State
from mocketmq.faults.rule import FaultRule, Kind, Operation, Stage
from mocketmq.http_api.reports import STEPS
from mocketmq.message.message_types import MessageType

CONSOLE: Final = files("mocketmq.console")
CODE: Final = {one.name: one.read_text() for one in CONSOLE.iterdir() if one.name.endswith(".js")}
PLURALS: Final = {"en": {"one", "other"}, "zh": {"other"}}
"""The plural forms of each language by Unicode's rules, which ``Intl.PluralRules`` follows."""
LATIN: Final = frozenset(
    {
        "Topic",
        "Key",
        "Tag",
        "Token",
        "JSON",
        "UTF",
        "KiB",
        "MiB",
        "max",
        "mocketmq",
        "Remoting",
        "Broker",
        "gRPC",
        "HTTP",
    }
    | {"NameServer", "English"}
)
"""Words that Chinese engineers write in Latin letters, also where they are the whole text."""
CODES: Final[dict[str, tuple[str, ...]]] = {
    "life": get_args(EventKind),
    "state": (*get_args(MessageState), *get_args(Consumption), *GroupState),
    "do": get_args(Kind),
    "fault": get_args(Kind),
    "operation": get_args(Operation),
    "stage": get_args(Stage),
    "fault-state": get_args(State),
    "rule": tuple(name for name in FaultRule.__struct_fields__ if name not in ("do", "name")),
    "type": get_args(MessageType),
    "step": STEPS,
}
"""Codes of the API that the page shows as words."""


def catalogue(language: str) -> dict[str, Any]:
    texts: dict[str, Any] = json.loads(CONSOLE.joinpath(f"{language}.json").read_text())
    return texts


def forms(text: Any) -> list[str]:
    return list(text.values()) if isinstance(text, dict) else [text]


def fields(text: Any) -> set[str]:
    return {name for form in forms(text) for name in re.findall(r"\{(\w+)\}", form)}


def asked() -> tuple[set[str], list[re.Pattern[str]]]:
    """Return the keys that the code names, and patterns of those that it completes at run time."""
    named: set[str] = set()
    completed: set[str] = set()
    for code in CODE.values():
        named |= set(re.findall(r'"([a-z][a-z0-9-]*\.[\w-]+)"', code)) - set(
            re.findall(r"[\w]+\.js(?:on)?", code)
        )
        completed |= set(
            re.findall(r"`((?:[a-z-]+|\$\{\w+\})\.(?:[\w-]|\$\{[\w.]+(?:\([\w.]+\))?\})+)`", code)
        )
        completed |= {f"{family}.${{code}}" for family in re.findall(r'\bterm\("([a-z-]+)"', code)}
    patterns = [".+".join(map(re.escape, re.split(r"\$\{[^}]*\}", one))) for one in sorted(completed)]
    return named, [re.compile(one) for one in patterns]


def test_both_languages_have_the_same_texts_with_the_same_fields() -> None:
    english, chinese = catalogue("en"), catalogue("zh")
    assert list(english) == list(chinese)
    assert {key: fields(text) for key, text in english.items()} == {
        key: fields(text) for key, text in chinese.items()
    }


@pytest.mark.parametrize("language", ["en", "zh"])
def test_texts_have_the_plural_forms_of_their_language(language: str) -> None:
    english = catalogue("en")
    for key, text in catalogue(language).items():
        assert isinstance(text, dict) == isinstance(english[key], dict), key
        if isinstance(text, dict):
            assert set(text) == PLURALS[language], key


def test_texts_about_one_message_are_in_the_singular() -> None:
    for key, text in catalogue("en").items():
        if isinstance(text, dict):
            assert not re.search(r"\b(They|Their|these|deliveries)\b", text["one"]), key


def test_every_text_that_the_page_asks_for_is_there_and_no_other() -> None:
    texts, (named, patterns) = set(catalogue("en")), asked()
    assert named <= texts, named - texts
    for pattern in patterns:
        assert any(map(pattern.fullmatch, texts)), pattern
    unused = {key for key in texts - named if not any(one.fullmatch(key) for one in patterns)}
    assert unused == set()


def test_codes_of_the_api_have_words() -> None:
    texts = catalogue("en")
    for family, codes in CODES.items():
        assert {f"{family}.{code}" for code in codes} <= set(texts), family


def test_chinese_texts_are_chinese() -> None:
    for key, text in catalogue("zh").items():
        for form in forms(text):
            words = re.sub(r"\{\w+\}", "", form)
            is_chinese = re.search("[\u4e00-\u9fff]", words) is not None
            assert is_chinese or set(re.findall("[A-Za-z]{2,}", words)) <= LATIN, (key, form)
