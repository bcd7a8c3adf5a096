"""Filters: which messages of a topic a consumer wants, by their tags or by an expression of SQL92."""

import asyncio
import sys
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import Final

from mocketmq.broker.filters.sql_expressions import Expression, ExpressionError, IncomparableError
from mocketmq.errors import InvalidArgumentError
from mocketmq.message.message import StoredMessage
from mocketmq.message.properties import TAGS, decode_properties, java_hash

TAG: Final = "TAG"
SQL92: Final = "SQL92"
KINDS: Final = (TAG, SQL92)
"""Languages of filters, as clients call them (ExpressionType of upstream)."""

MAX_TAGS = 100
MAX_SQL_LENGTH: Final = 16_384
"""Characters: to read so many takes a tenth of a second, in which nothing else happens."""
_PARSED: Final = 100
"""Expressions that are remembered, as upstream."""
_GRAMMAR: Final = "mocketmq.broker.filters.sql_grammar"


@dataclass(frozen=True, slots=True)
class TagFilter:
    """``*`` for everything, or tags such as ``A || B`` (sheet 8.3). ``tags`` empty: everything."""

    tags: frozenset[str] = frozenset()
    hashes: tuple[int, ...] = ()

    @classmethod
    def parse(cls, expression: str | None) -> "TagFilter":
        """Read a subscription expression. Raises InvalidArgumentError for more than 100 tags or none."""
        if expression is None or expression.strip() in ("", "*"):
            return EVERYTHING
        tags = frozenset(tag for part in expression.split("||") if (tag := part.strip()))
        if not 1 <= len(tags) <= MAX_TAGS:
            raise InvalidArgumentError(
                "filter", expression, f"* for everything, or 1 to {MAX_TAGS} tags parted by ||"
            )
        return cls(tags, tuple(sorted(map(java_hash, tags))))

    def matches(self, message: StoredMessage) -> bool:
        """Whether the message bears one of the tags. Two tags may have one hash, so both are compared."""
        if not self.tags:
            return True
        return (
            message.tag_hash in self.hashes and decode_properties(message.properties).get(TAGS) in self.tags
        )


EVERYTHING = TagFilter()


@dataclass(frozen=True, slots=True)
class SqlFilter:
    """A condition on properties such as ``price > 10 AND region IN ('x', 'y')`` (sheet 8.4)."""

    condition: Expression
    hashes: tuple[int, ...] = ()
    """Tags decide nothing."""

    @classmethod
    def parse(cls, expression: str | None) -> "SqlFilter":
        """Read an expression. Raises InvalidArgumentError, whose sentence says where it goes wrong."""
        return _sql_filter(expression or "")

    def matches(self, message: StoredMessage) -> bool:
        """Whether the condition is true of the message's properties, and not false or null."""
        return self.accepts(message.properties)

    def accepts(self, properties: str) -> bool:
        """As ``matches``, for the properties as they are stored."""
        try:
            return self.condition.evaluate(decode_properties(properties)) is True
        except IncomparableError:
            return False


Filter = TagFilter | SqlFilter


def parse_filter(expression: str | None, kind: str = TAG) -> Filter:
    """Read an expression of one of the KINDS. Raises InvalidArgumentError."""
    return SqlFilter.parse(expression) if kind == SQL92 else TagFilter.parse(expression)


async def prepare(kind: str) -> None:
    """Get ready to read expressions of this kind, while others go on: the first of SQL92 takes its time."""
    if kind == SQL92 and _GRAMMAR not in sys.modules:
        await asyncio.to_thread(import_module, _GRAMMAR)


@lru_cache(maxsize=_PARSED)
def _sql_filter(expression: str) -> SqlFilter:
    from mocketmq.broker.filters import sql_grammar  # noqa: PLC0415 - a tenth of a second that most never need

    allowed = "an expression of SQL92, such as price > 10 AND region IN ('x', 'y')"
    if len(expression) > MAX_SQL_LENGTH:
        raise InvalidArgumentError(
            "filter", expression, allowed, f"the filter has more than {MAX_SQL_LENGTH:,} characters"
        )
    try:
        return SqlFilter(sql_grammar.parse(expression))
    except ExpressionError as error:
        before = expression[: error.start]
        line, column = before.count("\n") + 1, error.start - before.rfind("\n")
        raise InvalidArgumentError(
            "filter", expression, allowed, f"line {line}, column {column} of the filter: {error}"
        ) from None
