"""A subscription's filter: by tags, or by an SQL92 expression on the properties."""

import asyncio
import sys
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Final

from mocketmq.errors import InvalidArgumentError
from mocketmq.message.message import StoredMessage
from mocketmq.message.properties import TAGS, decode_properties, java_hash

if TYPE_CHECKING:
    from mocketmq.broker.filters.sql_expressions import Expression

TAG: Final = "TAG"
SQL92: Final = "SQL92"
KINDS: Final = (TAG, SQL92)
"""Filter languages, named as in RocketMQ's ExpressionType."""

MAX_TAGS = 100
MAX_SQL_LENGTH: Final = 16_384
"""Maximum length of an expression. Parsing so much text blocks the broker for a tenth of a second."""
_PARSED: Final = 100
"""Size of the cache of parsed expressions, as in RocketMQ."""
_GRAMMAR: Final = "mocketmq.broker.filters.sql_grammar"


@dataclass(frozen=True, slots=True)
class TagFilter:
    """A filter by tags: ``*`` for everything, or tags such as ``A || B``. Empty ``tags`` match everything.

    Source: docs/protocol/remoting.md §8.3.
    """

    tags: frozenset[str] = frozenset()
    hashes: tuple[int, ...] = ()

    @classmethod
    def parse(cls, expression: str | None) -> "TagFilter":
        """Parse a subscription expression. Raises InvalidArgumentError unless it has 1 to 100 tags."""
        if expression is None or expression.strip() in ("", "*"):
            return EVERYTHING
        tags = frozenset(tag for part in expression.split("||") if (tag := part.strip()))
        if not 1 <= len(tags) <= MAX_TAGS:
            raise InvalidArgumentError(
                "filter", expression, f"* for everything, or 1 to {MAX_TAGS} tags joined by ||"
            )
        return cls(tags, tuple(sorted(map(java_hash, tags))))

    def matches(self, message: StoredMessage) -> bool:
        """Whether the message has one of the tags. Compares tags and hashes, because hashes may collide."""
        if not self.tags:
            return True
        return (
            message.tag_hash in self.hashes and decode_properties(message.properties).get(TAGS) in self.tags
        )


EVERYTHING = TagFilter()


@dataclass(frozen=True, slots=True)
class SqlFilter:
    """A condition on properties, such as ``price > 10 AND region IN ('x', 'y')``.

    Source: docs/protocol/remoting.md §8.4.
    """

    condition: "Expression"
    hashes: tuple[int, ...] = ()
    """Always empty, because an SQL92 filter does not select by tags."""

    @classmethod
    def parse(cls, expression: str | None) -> "SqlFilter":
        """Parse an expression. Raises InvalidArgumentError with line and column of the mistake."""
        return _sql_filter(expression or "")

    def matches(self, message: StoredMessage) -> bool:
        """Whether the condition is true, rather than false or null, for the message."""
        return self.accepts(message.properties)

    def accepts(self, properties: str) -> bool:
        """Like ``matches``, for properties as they are stored."""
        return self.condition.is_true(decode_properties(properties))


Filter = TagFilter | SqlFilter


def parse_filter(expression: str | None, kind: str = TAG) -> Filter:
    """Parse an expression of one of the KINDS. Raises InvalidArgumentError."""
    return SqlFilter.parse(expression) if kind == SQL92 else TagFilter.parse(expression)


async def prepare(kind: str) -> None:
    """Import the parser for this kind in a thread, because SQL92's import takes a tenth of a second."""
    if kind == SQL92 and _GRAMMAR not in sys.modules:
        await asyncio.to_thread(import_module, _GRAMMAR)


@lru_cache(maxsize=_PARSED)
def _sql_filter(expression: str) -> SqlFilter:
    from mocketmq.broker.filters import sql_expressions, sql_grammar  # noqa: PLC0415 - slow, and rarely needed

    allowed = "an expression of SQL92, such as price > 10 AND region IN ('x', 'y')"
    if len(expression) > MAX_SQL_LENGTH:
        raise InvalidArgumentError(
            "filter", expression, allowed, f"the filter is longer than {MAX_SQL_LENGTH:,} characters"
        )
    try:
        return SqlFilter(sql_grammar.parse(expression))
    except sql_expressions.ExpressionError as error:
        before = expression[: error.start]
        line, column = before.count("\n") + 1, error.start - before.rfind("\n")
        raise InvalidArgumentError(
            "filter", expression, allowed, f"line {line}, column {column} of the filter: {error}"
        ) from None
