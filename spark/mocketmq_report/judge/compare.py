"""Compares a report with earlier reports, the first of which is the baseline, and judges fail-if rules.

A rule is a threshold with a limit relative to the baseline. The report fails when a rule *holds*:
``p99 > 1.5x``, ``level=* max > +50ms``, ``on_time < -0.1%``, ``lost > +0``. The limit is

* ``1.5x``: 1.5 times the baseline's value;
* ``+50ms``, ``-3``: more or less than the baseline's value. Shares differ by percentage points, so
  ``on_time < -0.1%`` holds for 99.8% after 99.91%;
* ``+10%``, ``-5%``, not for shares: the same as ``1.1x`` and ``0.95x``.

Counts are compared under every clock; times are compared only under real clocks without moves.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from mocketmq.duration import parse_duration_us
from mocketmq.errors import EmulatorError, InvalidArgumentError, shorten
from mocketmq_report import figures
from mocketmq_report.document import (
    SCHEMA_VERSION,
    Change,
    Comparison,
    Dimension,
    Header,
    Judgement,
    Lateness,
    Reconciliation,
    Report,
    Side,
)
from mocketmq_report.judge.condition import OPERATORS, Condition, parse_condition
from mocketmq_report.judge.metric import DeliveryGroup, Kind, Metric, Scope, busy_levels, readings, written
from mocketmq_report.judge.thresholds import NO_SPEED

_ALLOWED: Final[dict[Kind, str]] = {
    "duration": "1.5x, +10ms, -10ms or +10%",
    "share": "1.5x, or points such as -0.1%",
    "count": "1.5x, +3, -3 or +10%",
}
_LIMIT: Final = re.compile(r"(?P<times>[0-9]{1,6}(?:\.[0-9]{1,6})?)x|(?P<sign>[+-])(?P<size>\S+)", re.ASCII)
_PERCENT: Final = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,6})?)%", re.ASCII)
_COUNT: Final = re.compile(r"[0-9]{1,15}", re.ASCII)

_LOAD: Final = 0.2
"""Minimum difference of loads that the report mentions, as a share of the baseline's load."""


class ReportUnreadableError(EmulatorError):
    """A file is not a report of a readable version. The sentence names the readable version."""


class FailRule(NamedTuple):
    """Fails the report if ``metric operator times * baseline + more`` holds."""

    text: str
    scope: Scope
    metric: Metric
    operator: str
    times: Fraction
    more: Fraction

    def limit(self, baseline: Fraction) -> Fraction:
        """Return the limit for the report's value, given the baseline's."""
        return baseline * self.times + self.more


def parse_rule(text: str) -> FailRule:
    """Read a fail-if rule. Raises InvalidThresholdError."""
    condition = parse_condition(text)
    times, more = _relative(condition)
    return FailRule(
        f"{condition.left} {condition.limit}",
        condition.scope,
        condition.metric,
        condition.operator,
        times,
        more,
    )


def _relative(condition: Condition) -> tuple[Fraction, Fraction]:
    kind = condition.metric.kind
    found = _LIMIT.fullmatch(condition.limit)
    if found and found["times"]:
        return Fraction(found["times"]), Fraction(0)
    if found:
        size = _size(found["size"], kind)
        if size is not None:
            sign = -1 if found["sign"] == "-" else 1
            percent = found["size"].endswith("%") and kind != "share"
            return (1 + sign * size, Fraction(0)) if percent else (Fraction(1), sign * size)
    raise condition.wrong(
        f"{shorten(condition.limit)} is not a limit relative to the baseline; {condition.metric} takes"
        f" {_ALLOWED[kind]}; an absolute limit is a threshold, not a rule"
    )


def _size(text: str, kind: Kind) -> Fraction | None:
    if percent := _PERCENT.fullmatch(text):
        return Fraction(percent[1]) / 100
    if kind == "count" and _COUNT.fullmatch(text):
        return Fraction(text)
    if kind == "duration":
        try:
            return Fraction(parse_duration_us(text))
        except InvalidArgumentError:
            pass
    return None


def load_report(path: Path) -> Report:
    """Read an earlier ``report.json``. Raises ReportUnreadableError."""
    try:
        content = path.read_bytes()
        version = msgspec.json.decode(content, type=_Versioned).schema_version
        if version.partition(".")[0] == SCHEMA_VERSION.partition(".")[0]:
            return msgspec.json.decode(content, type=Report)
    except OSError as error:
        raise ReportUnreadableError(f"{path} cannot be read: {error.strerror}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ReportUnreadableError(f"{path} is not a report.json of a lateness report: {error}") from error
    raise ReportUnreadableError(
        f"{path} is a report of schema version {shorten(version)}; this program reads"
        f" {SCHEMA_VERSION.partition('.')[0]}.x: make the report again from its data"
    )


class _Versioned(msgspec.Struct):
    schema_version: str


def compare(candidate: Report, baselines: Sequence[Report], rules: Sequence[FailRule] = ()) -> Comparison:
    """Compare the candidate with the first baseline, and show the other baselines next to it.

    The candidate is the last side. Missing and incomparable values are null.
    """
    reports = [*baselines, candidate]
    headers = [report.header for report in reports]
    names = _names(headers)
    is_performance = all(header.is_performance for header in headers)
    return Comparison(
        sides=[
            Side(
                name=name,
                header=report.header,
                spectra=[one for one in report.spectra if one.dimension in ("total", "level")],
            )
            for name, report in zip(names, reports, strict=True)
        ],
        differences=list(_differences(headers, names)),
        is_performance=is_performance,
        changes=list(_changes(reports, is_performance)),
        judgements=[_judge(rule, candidate, baselines[0]) for rule in rules],
    )


def _names(headers: Sequence[Header]) -> list[str]:
    """Return the titles of the reports, numbered if they are equal."""
    titles = [header.title for header in headers]
    names: list[str] = []
    for title in titles:
        name, number = title, 1
        while name in names or (name != title and name in titles):
            number += 1
            name = f"{title} ({number})"
        names.append(name)
    return names


_Described = Callable[[Header], str]


def _of_runs(field: str) -> _Described:
    return lambda header: ", ".join(dict.fromkeys(str(getattr(run, field)) for run in header.runs))


_DESCRIBED: Final[tuple[tuple[str, _Described], ...]] = (
    ("broker's version", _of_runs("version")),
    ("host", _of_runs("host")),
    ("profile", _of_runs("profile")),
    ("clock", _of_runs("clock")),
    ("table of levels", _of_runs("levels")),
    ("durability", _of_runs("durability")),
    ("measure of on time", lambda header: figures.duration(header.on_time_us)),
    ("method of percentiles", lambda header: header.method),
)


def _differences(headers: Sequence[Header], names: Sequence[str]) -> Iterator[str]:
    for what, described in _DESCRIBED:
        said = [described(header) or "unknown" for header in headers]
        if len(set(said)) > 1:
            yield _differs(what, said, names)
    loads = [header.load for header in headers]
    base = loads[0]
    if base and any(load is not None and abs(load - base) > _LOAD * base for load in loads):
        yield _differs("load", [figures.rate(load) for load in loads], names)
    slow = [name for name, header in zip(names, headers, strict=True) if not header.is_performance]
    if slow:
        yield f"the clock was moved or not real in {figures.listed(slow)}: times are not compared"


def _differs(what: str, said: Sequence[str], names: Sequence[str]) -> str:
    each = (f"{one} in {name}" for one, name in zip(said, names, strict=True))
    return f"the {what} differs: {figures.listed(each)}"


def _changes(reports: Sequence[Report], is_performance: bool) -> Iterator[Change]:
    percentiles = {name for report in reports for row in report.lateness for name in row.percentiles}
    metrics = (
        *("measured", "on_time_share", "early", "overdue", "min"),
        *sorted(percentiles, key=lambda name: float(name[1:])),
        *("mean", "max", "lost", "repeats"),
    )
    incomparable = {"on_time_share"} if len({report.header.on_time_us for report in reports}) > 1 else set()
    if not is_performance:
        incomparable |= {metric for metric in metrics if figures.is_time(metric)} | {"on_time_share"}
    rows = [_rows(report) for report in reports]
    for dimension, name in dict.fromkeys(group for one in rows for group in one):
        sides = [one.get((dimension, name)) for one in rows]
        delay = next((side.delay for side in sides if side and side.delay), None)
        for metric in metrics:
            values = [side and side.value(metric) for side in sides]
            base = None if metric in incomparable else values[0]
            yield Change(
                dimension=dimension,
                name=name,
                delay=delay,
                metric=metric,
                values=values,
                deltas=[None if base is None or value is None else value - base for value in values],
                ratios=[
                    value / base if base and base > 0 and value is not None else None for value in values
                ],
            )


class _GroupRows(NamedTuple):
    """The rows of a report about one group."""

    lateness: Lateness
    reconciliation: Reconciliation | None

    @property
    def delay(self) -> str | None:
        return self.lateness.delay

    def value(self, metric: str) -> float | None:
        if metric in ("lost", "repeats"):
            return getattr(self.reconciliation, metric, None)
        if metric in self.lateness.percentiles:
            return self.lateness.percentiles[metric]
        return getattr(self.lateness, f"{metric}_us" if figures.is_time(metric) else metric, None)


def _rows(report: Report) -> dict[tuple[Dimension, str], _GroupRows]:
    reconciled = {(row.dimension, row.name): row for row in report.reconciliation}
    return {
        (row.dimension, row.name): _GroupRows(row, reconciled.get((row.dimension, row.name)))
        for row in report.lateness
        if row.dimension in ("total", "level", "scheme", "topic")
    }


class _ComparedGroup(NamedTuple):
    group: DeliveryGroup
    value: Fraction
    baseline: Fraction

    def said(self, rule: FailRule) -> str:
        kind, limit = rule.metric.kind, rule.limit(self.baseline)
        value, baseline = written(self.value, kind, limit), written(self.baseline, kind, limit)
        return f"{self.group}: {rule.metric} is {value} (baseline {baseline})"

    def change(self, rule: FailRule) -> str:
        """Write the change from the baseline in the rule's form: as a ratio, a percentage or a difference."""
        delta = self.value - self.baseline
        sign = "-" if delta < 0 else "+"
        if self.baseline and rule.text.endswith("x"):
            return figures.ratio(float(self.value / self.baseline))
        if self.baseline and rule.text.endswith("%") and rule.metric.kind != "share":
            return f"{sign}{figures.share(float(abs(delta / self.baseline)))}"
        return f"{sign}{written(abs(delta), rule.metric.kind, abs(rule.more))}"

    def excess(self, rule: FailRule) -> Fraction:
        """Return the excess of the value over the rule's limit."""
        over = self.value - rule.limit(self.baseline)
        return -over if rule.operator in ("<", "<=") else over


def _judge(rule: FailRule, candidate: Report, baseline: Report) -> Judgement:
    """Judge a rule. The report passes unless the rule holds for a group, or cannot be judged."""
    compared, failures, remarks = _compared(rule, candidate, baseline)
    holding = [one for one in compared if OPERATORS[rule.operator](one.value, rule.limit(one.baseline))]
    worst = max(holding or compared, key=lambda one: one.excess(rule), default=None)
    said = figures.listed(one.said(rule) for one in holding or ([worst] if worst else []))
    return Judgement(
        text=rule.text,
        passed=not holding and not failures,
        actual=worst.change(rule) if worst else "not measured",
        reason="; ".join(filter(None, [said, figures.listed(failures, 3), figures.listed(remarks, 3)])),
    )


def _compared(
    rule: FailRule, candidate: Report, baseline: Report
) -> tuple[list[_ComparedGroup], list[str], list[str]]:
    """Return the comparable groups, the reasons why other groups fail, and remarks."""
    metric = rule.metric
    if metric.kind != "count" and not (candidate.header.is_performance and baseline.header.is_performance):
        return [], [NO_SPEED], []
    if str(metric) == "on_time" and candidate.header.on_time_us != baseline.header.on_time_us:
        return [], ["the reports measure on time differently: name it, as in on_time(100ms)"], []
    compared, failures, remarks = [], [], []
    scopes, busy_before = [rule.scope], set()
    if rule.scope.name == "*":
        busy_before = {level.name for level in busy_levels(baseline, metric)}
        busy_now = {level.name for level in busy_levels(candidate, metric)}
        scopes = [Scope("level", name) for name in sorted(busy_before | busy_now, key=int)]
    for scope in scopes:
        ours, theirs = (readings(report, scope, metric) for report in (candidate, baseline))
        if rule.scope.name == "*" and theirs.unknown and scope.name not in busy_before:
            remarks.append(f"level {scope.name} has no deliveries in the baseline")
            continue
        failures += ours.unknown or [f"in the baseline {why}" for why in theirs.unknown]
        for (group, value), before in zip(ours.values.items(), theirs.values.values(), strict=False):
            if before < 0 and rule.times != 1:
                failures.append(
                    f"{group}: the baseline's {metric} is negative, so no multiple of it is meaningful"
                )
            else:
                compared.append(_ComparedGroup(group, value, before))
    if not compared and not failures:
        failures.append("no level has deliveries in both reports")
    return compared, failures, remarks
