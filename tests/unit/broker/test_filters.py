"""Tag filters: what they read, and what passes them."""

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
def test_everything(expression: str | None) -> None:
    chosen = TagFilter.parse(expression)
    assert chosen is EVERYTHING
    assert chosen.matches(stored("A"))
    assert chosen.matches(stored(None))


@pytest.mark.parametrize("expression", ["A", " A ", "A || B", "A||B", "B|| A ||", "A || A"])
def test_one_of_several_tags(expression: str) -> None:
    chosen = TagFilter.parse(expression)
    assert chosen.matches(stored("A"))
    assert chosen.matches(stored("B")) == ("B" in expression)
    assert not chosen.matches(stored("C"))
    assert not chosen.matches(stored(None))


def test_tags_of_one_hash_are_told_apart() -> None:
    assert not TagFilter.parse("Aa").matches(stored("BB"))
    assert TagFilter.parse("Aa").matches(stored("Aa"))


def test_a_tag_may_be_any_text() -> None:
    assert TagFilter.parse("订单 | ü").matches(stored("订单 | ü"))


@pytest.mark.parametrize("expression", ["||", " || ||", "||".join(map(str, range(MAX_TAGS + 1)))])
def test_no_tag_or_too_many_are_refused(expression: str) -> None:
    with pytest.raises(InvalidArgumentError, match="1 to 100 tags") as refused:
        TagFilter.parse(expression)
    assert refused.value.field == "filter"
