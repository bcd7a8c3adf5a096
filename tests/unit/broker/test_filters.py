"""Tag filters: which expressions they accept, and which messages pass."""

import pytest

from mocketmq.broker.filters.filter import EVERYTHING, MAX_TAGS, TagFilter
from mocketmq.errors import InvalidArgumentError
from mocketmq.message.message import Message, StoredMessage, draft


def stored(tag: str | None) -> StoredMessage:
    ready = draft(Message("t", b"x", {"TAGS": tag} if tag else {}), 0)
    return StoredMessage(
        0, 1, 0, 0, 0, "", "", 0, 0, b"x", ready.properties, ready.tag_hash, 0, "k", None, None, None
    )


@pytest.mark.parametrize("expression", [None, "", " ", "*", " * "])
def test_empty_expressions_match_everything(expression: str | None) -> None:
    chosen = TagFilter.parse(expression)
    assert chosen is EVERYTHING
    assert chosen.matches(stored("A"))
    assert chosen.matches(stored(None))


@pytest.mark.parametrize("expression", ["A", " A ", "A || B", "A||B", "B|| A ||", "A || A"])
def test_expression_matches_any_of_its_tags(expression: str) -> None:
    chosen = TagFilter.parse(expression)
    assert chosen.matches(stored("A"))
    assert chosen.matches(stored("B")) == ("B" in expression)
    assert not chosen.matches(stored("C"))
    assert not chosen.matches(stored(None))


def test_tags_with_one_hash_are_distinguished() -> None:
    assert not TagFilter.parse("Aa").matches(stored("BB"))
    assert TagFilter.parse("Aa").matches(stored("Aa"))


def test_a_tag_may_be_any_text() -> None:
    assert TagFilter.parse("订单 | ü").matches(stored("订单 | ü"))


@pytest.mark.parametrize("expression", ["||", " || ||", "||".join(map(str, range(MAX_TAGS + 1)))])
def test_empty_and_excessive_tag_lists_are_refused(expression: str) -> None:
    with pytest.raises(InvalidArgumentError, match="1 to 100 tags") as refused:
        TagFilter.parse(expression)
    assert refused.value.field == "filter"
