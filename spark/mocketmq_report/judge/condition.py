r"""Parses the text of a threshold or a fail-if rule, up to its limit.

::

    condition = [ scope ] metric operator limit
    scope     = "total" | "level=" ( number | "*" )
              | ( "scheme=" | "profile=" | "topic=" | "broker=" | "run=" ) name
    name      = characters without spaces and quotes | '"' any characters, with \" and \\ '"'
    metric    = a key of metric.METRICS | "count", another name of "measured"
              | "p" number              a percentile between 0 and 100: p50, p99.95
              | "on_time(" duration ")" on time by this duration instead of the report's own
    operator  = "<=" | "<" | ">=" | ">" | "==" | "!="

A condition without a scope applies to the total. A space is required between scope and metric, and allowed
between other parts. ``level=*`` means every level with deliveries.
"""

import re
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from operator import eq, ge, gt, le, lt, ne
from typing import Any, Final, NamedTuple, cast

from mocketmq.duration import parse_duration_us
from mocketmq.errors import EmulatorError, InvalidArgumentError, shorten
from mocketmq_report import figures
from mocketmq_report.document import Dimension
from mocketmq_report.judge.metric import DIMENSIONS, METRICS, Metric, Scope

OPERATORS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "<=": le,
    "<": lt,
    ">=": ge,
    ">": gt,
    "==": eq,
    "!=": ne,
}

_HIGHEST_LEVEL: Final = 1_000  # a broker has no higher level
_TOTAL: Final = re.compile(r"total(?=\s|$)")
_SCOPE: Final = re.compile(r'([\w-]+)=(?!=)("(?:[^"\\]|\\.)*"(?=\s|$)|[^\s"]*(?=\s|$))')
_LEVEL: Final = re.compile(r"\*|[1-9][0-9]{0,3}")
_METRIC: Final = re.compile(r"([\w.-]+)(?:\(([^()]*)\))?")
_PERCENTILE: Final = re.compile(r"p(?:0|[1-9][0-9]?)(?:\.[0-9]{1,6})?", re.ASCII)
_OPERATOR: Final = re.compile(r"[<>=!~≤≥≠]+")
_SLIPS: Final = {"=": "==", "=<": "<=", "=>": ">=", "≤": "<=", "≥": ">=", "≠": "!=", "<>": "!=", "===": "=="}
_ALIASES: Final = {"count": "measured"}
_WORDS: Final = (*METRICS, *_ALIASES, "p50", "p90", "p99", "p99.9", "p99.99")


class InvalidThresholdError(EmulatorError):
    """An invalid threshold or rule. The sentence names the column and the allowed values."""


class Condition(NamedTuple):
    """A condition with an unparsed limit, which begins at ``column``, counted from 1."""

    text: str
    scope: Scope
    metric: Metric
    operator: str
    limit: str
    column: int

    @property
    def left(self) -> str:
        """The text of the condition before the limit, with single spaces."""
        return " ".join(filter(None, (str(self.scope), str(self.metric), self.operator)))

    def wrong(self, problem: str) -> InvalidThresholdError:
        """Make the error for an invalid limit."""
        return _invalid(self.text, self.column, problem)


def parse_condition(text: str) -> Condition:
    """Parse a threshold or rule up to its limit. Raises InvalidThresholdError."""
    return _ConditionParser(text).asked()


class _ConditionParser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def asked(self) -> Condition:
        self._skip()
        scope = self._scope()
        self._skip()
        metric = self._metric(scope)
        self._skip()
        operator = self._operator(metric)
        self._skip()
        limit = self._text[self._at :].rstrip()
        if not limit:
            raise self._wrong(f"the limit is missing after {operator}")
        return Condition(self._text, scope, metric, operator, limit, self._at + 1)

    def _skip(self) -> None:
        self._at = len(self._text) - len(self._text[self._at :].lstrip())

    def _wrong(self, problem: str) -> InvalidThresholdError:
        return _invalid(self._text, self._at + 1, problem)

    def _scope(self) -> Scope:
        if found := _TOTAL.match(self._text, self._at):
            self._at = found.end()
            return Scope("total", "total")
        found = _SCOPE.match(self._text, self._at)
        if not found:
            return Scope("total", "total")
        dimension, name = found.groups()
        if dimension not in DIMENSIONS[1:]:
            if dimension in METRICS or _PERCENTILE.fullmatch(dimension):
                raise self._wrong(f"= is not an operator; did you mean {dimension} == {name}?")
            raise self._wrong(
                f"there is no scope {shorten(dimension)}{_meant(dimension, DIMENSIONS[1:])}; allowed: total,"
                f" {', '.join(f'{one}=' for one in DIMENSIONS[1:])}"
            )
        if name.startswith('"'):
            name = re.sub(r"\\(.)", r"\1", name[1:-1], flags=re.DOTALL)
        if dimension == "level" and not (
            _LEVEL.fullmatch(name) and (name == "*" or int(name) <= _HIGHEST_LEVEL)
        ):
            raise self._wrong(f"level={name} is not a level; allowed: 1 to {_HIGHEST_LEVEL}, or *")
        if name in ("", "*") and dimension != "level":
            raise self._wrong(f"a name is missing after {dimension}=; only levels can be *")
        self._at = found.end()
        return Scope(cast("Dimension", dimension), name)

    def _metric(self, scope: Scope) -> Metric:
        found = _METRIC.match(self._text, self._at)
        if not found:
            raise self._wrong(f"the metric is missing; allowed: {_names()}")
        word, cutoff = found.groups()
        metric = Metric(self._name(word), self._cutoff(word, cutoff))
        if scope.dimension not in metric.dimensions:
            raise self._wrong(f"{word} is not counted by {scope.dimension}, only {_by(metric.dimensions)}")
        self._at = found.end()
        return metric

    def _name(self, word: str) -> str:
        if word in METRICS:
            return word
        if word in _ALIASES:
            return _ALIASES[word]
        if _PERCENTILE.fullmatch(word):
            name = figures.plain(word)
            if name != "p0":
                return name
        if word in DIMENSIONS[1:]:
            raise self._wrong(
                f'{word} is a scope: write {word}=name before the metric, or {word}="a name" if it has spaces'
            )
        if re.fullmatch(r"p[0-9.]+", word, re.ASCII):
            raise self._wrong(
                f"{word} is not a percentile; allowed: above 0 and below 100, such as p50 or p99.95, and min"
                " and max; no more than six decimals"
            )
        raise self._wrong(f"there is no metric {shorten(word)}{_meant(word, _WORDS)}; allowed: {_names()}")

    def _cutoff(self, word: str, cutoff: str | None) -> int | None:
        if cutoff is None:
            return None
        if word != "on_time":
            raise self._wrong(
                f"{word} does not accept a value in parentheses; only on_time does, as in on_time(100ms)"
            )
        try:
            return parse_duration_us(cutoff.strip(), "on_time's duration")
        except InvalidArgumentError as error:
            raise self._wrong(str(error)) from None

    def _operator(self, metric: Metric) -> str:
        allowed = f"allowed: {' '.join(OPERATORS)}"
        found = _OPERATOR.match(self._text, self._at)
        if not found:
            raise self._wrong(f"an operator is missing after {metric}; {allowed}")
        operator = found[0]
        if operator not in OPERATORS:
            meant = f" (did you mean {_SLIPS[operator]}?)" if operator in _SLIPS else ""
            raise self._wrong(f"{operator} is not an operator{meant}; {allowed}")
        self._at = found.end()
        return operator


def _invalid(text: str, column: int, problem: str) -> InvalidThresholdError:
    return InvalidThresholdError(f"{shorten(text, 200)}, column {column}: {problem}")


def _meant(word: str, names: Iterable[str]) -> str:
    close = get_close_matches(word.lower().replace("-", "_"), list(names), 1)
    return f" (did you mean {close[0]}?)" if close else ""


def _names() -> str:
    return f"percentiles such as p99.9, {', '.join([*METRICS, *_ALIASES])}, on_time(100ms)"


def _by(dimensions: Iterable[Dimension]) -> str:
    return "in total" + "".join(f", by {one}" for one in dimensions if one != "total")
