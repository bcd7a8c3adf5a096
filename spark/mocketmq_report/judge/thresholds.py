"""Judges a report by thresholds: lines such as ``level=3 p99 <= 50ms`` or ``lost == 0``.

``condition`` describes the text up to the limit. The limit is a duration such as ``50ms``, ``1h30m`` or
``-5ms`` for metrics that are times, a share such as ``99.9%`` for ``on_time``, and a whole number for all
other metrics. In a file each line is a threshold; empty lines are skipped. ``#`` begins a comment, at the
start of a line or after a space.
"""

import re
from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from mocketmq.duration import parse_duration_us
from mocketmq.errors import InvalidArgumentError, shorten
from mocketmq_report import figures
from mocketmq_report.document import Judgement, Report
from mocketmq_report.judge.condition import OPERATORS, Condition, InvalidThresholdError, parse_condition
from mocketmq_report.judge.metric import Kind, Metric, Scope, readings, written

_ALLOWED: Final[dict[Kind, str]] = {
    "duration": "a duration such as 50ms, 1.5s or 1h30m",
    "share": "a share from 0% to 100%, such as 99.9%",
    "count": "a whole number such as 0, without a unit",
}

NO_SPEED: Final = "the clock was moved or not real, so this does not measure speed"

_UNITS: Final = {"duration": "ms", "share": "%"}
_NUMBER: Final = re.compile(r"[0-9]+(?:\.[0-9]+)?", re.ASCII)
_SHARE: Final = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,9})?)%", re.ASCII)
_COUNT: Final = re.compile(r"[0-9]{1,15}", re.ASCII)
_CODE: Final = re.compile(r'(?:"(?:[^"\\]|\\.)*"|(?<=\S)#|[^#])*')
"""Matches a line up to its comment."""


class Threshold(NamedTuple):
    """A condition that a report must meet. Its ``str`` is its text in normal form."""

    scope: Scope
    metric: Metric
    operator: str
    limit: Fraction

    def holds(self, value: Fraction) -> bool:
        """Return whether the value meets the limit."""
        return OPERATORS[self.operator](value, self.limit)

    def __str__(self) -> str:
        parts = (str(self.scope), str(self.metric), self.operator, written(self.limit, self.metric.kind))
        return " ".join(filter(None, parts))


class HasMetric(Protocol):
    """A threshold or a fail-if rule."""

    @property
    def metric(self) -> Metric:
        """The judged metric."""


class RequiredFigures(NamedTuple):
    """The figures that thresholds and rules need in addition to every report's figures."""

    percentiles: tuple[float, ...]  # percentiles such as 99.95, in order
    cutoffs_us: tuple[int, ...]  # limits of on_time(…), in order


def parse(text: str) -> Threshold:
    """Read one threshold. Raises InvalidThresholdError."""
    condition = parse_condition(text)
    return Threshold(condition.scope, condition.metric, condition.operator, _limit(condition))


def parse_file(path: Path) -> list[Threshold]:
    """Read a file of thresholds. Raises InvalidThresholdError, which names file and line."""
    try:
        lines = path.read_text("utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidThresholdError(f"{path} cannot be read as text: {error}") from error
    found = []
    for number, line in enumerate(lines, start=1):
        code = _CODE.match(line)
        if code and code[0].strip():
            try:
                found.append(parse(code[0].rstrip()))
            except InvalidThresholdError as error:
                raise InvalidThresholdError(f"{path}, line {number}: {error}") from None
    if not found:
        raise InvalidThresholdError(f"{path} has no thresholds; write one on each line, such as early == 0")
    return found


def required_figures(conditions: Iterable[HasMetric]) -> RequiredFigures:
    """Collect the figures that thresholds and rules need."""
    metrics = {one.metric for one in conditions}
    return RequiredFigures(
        tuple(sorted({float(one.name[1:]) for one in metrics if one.is_percentile})),
        tuple(sorted({one.cutoff_us for one in metrics if one.cutoff_us is not None})),
    )


def judge(threshold: Threshold, report: Report) -> Judgement:
    """Judge whether the report passes. A threshold that cannot be judged fails, with the reason.

    ``level=*`` is a single judgement. The judgement passes if every level with deliveries passes, and shows
    the worst level.
    """
    metric, limit = threshold.metric, threshold.limit
    values, unknown = readings(report, threshold.scope, metric)

    def said(value: Fraction) -> str:
        return written(value, metric.kind, limit)

    failed = {group: value for group, value in values.items() if not threshold.holds(value)}
    group = max(values, key=lambda group: _how_bad(threshold, values[group]), default=None)
    reasons = []
    if failed:
        each = figures.listed(f"{group}: {metric} is {said(value)}" for group, value in failed.items())
        reasons.append(f"{each}, not {threshold.operator} {said(limit)}")
    elif group:
        reasons.append(f"{group}: {metric} is {said(values[group])}")
    if unknown:
        reasons.append(figures.listed(unknown, most=3))
    error = report.header.error if metric.is_percentile else 0
    if any(abs(value - limit) < error * value for value in values.values()):
        reasons.append(
            f"bins, which may be wrong by {figures.share(error)}, cannot decide so close to the limit"
        )
    if values and metric.kind != "count" and not report.header.is_performance:
        reasons.append(NO_SPEED)
    return Judgement(
        text=str(threshold),
        passed=not failed and not unknown,
        actual=said(values[group]) if group else "not measured",
        reason="; ".join(reasons),
    )


def _how_bad(threshold: Threshold, value: Fraction) -> Fraction:
    """Return a number that is greater for worse values."""
    if threshold.operator in ("<=", "<"):
        return value
    if threshold.operator in (">=", ">"):
        return -value
    return abs(value - threshold.limit) * (1 if threshold.operator == "==" else -1)


def _limit(condition: Condition) -> Fraction:
    text, kind = condition.limit, condition.metric.kind
    if kind == "duration":
        try:
            return Fraction(parse_duration_us(text.removeprefix("-")) * (-1 if text[0] == "-" else 1))
        except InvalidArgumentError:
            pass
    elif kind == "count":
        if _COUNT.fullmatch(text):
            return Fraction(text)
    elif (found := _SHARE.fullmatch(text)) and (share := Fraction(found[1]) / 100) <= 1:
        return share
    meant = f" (did you mean {text}{_UNITS[kind]}?)" if _NUMBER.fullmatch(text) and kind in _UNITS else ""
    raise condition.wrong(
        f"{shorten(text)} is not a limit of {condition.metric}, which accepts {_ALLOWED[kind]}{meant}"
    )
