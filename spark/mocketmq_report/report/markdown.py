"""Writes a report as Markdown for a comment on a pull request: the verdict first, long parts folded."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from mocketmq_report import figures
from mocketmq_report.document import Comparison, Judgement, Lateness, Quality, Reconciliation, Report, Stage
from mocketmq_report.report import by_delay_limits, headline
from mocketmq_report.report.why import is_all_zero, moved, why

LONGEST: Final = 65_536
"""Maximum number of characters in a comment on GitHub."""

_CUT: Final = "The rest does not fit in a comment; it is in the report.\n"
_MOST_ROWS: Final = 50
_LONGEST_TEXT: Final = 600

_SPECIAL: Final = re.compile(r"[&<>|`*\[\]\\~$@#]|(?<![^\W_])_|_(?![^\W_])")
"""Characters with a meaning in Markdown. Underscores between letters or digits have none."""
_NO_WORD: Final = re.compile(r"[^\w ]|_")


def markdown(report: Report) -> str:
    """Make the comment, of at most ``LONGEST`` characters. Users' text is escaped."""
    text = ""
    for part in _parts(report):
        if len(text) + len(part) + len(_CUT) + 2 > LONGEST:
            return text + _CUT
        text += f"{part}\n\n"
    return text.rstrip() + "\n"


def _parts(report: Report) -> Iterator[str]:
    header = report.header
    yield f"## Lateness of {plain(header.title)}: {headline.verdict(report)}"
    yield f"{plain(headline.measured(header))}<br>\n{plain(headline.computed(header))}"
    if header.warnings:
        yield _bullets(header.warnings)
    if said := moved(report):
        yield f"**{plain(said)}**"
    if report.judgements:
        yield _judgements("threshold", report.judgements)
    if report.comparison:
        yield from _comparison(report.comparison)
    for what, reasons in why(report):
        rows = ((each.bar, each.share, each.messages, plain(each.words)) for each in reasons)
        yield f"**{plain(what)}:**\n\n{table(['', '>share', '>messages', 'why'], rows)}"
    if report.delay_limits:
        yield f"**{plain(by_delay_limits.sentence(report.delay_limits))}**"
        if verdicts := [tuple(map(plain, row)) for row in by_delay_limits.verdict_rows(report.delay_limits)]:
            yield table(by_delay_limits.COLUMNS, verdicts)
    silent = [row for row in report.reconciliation if row.dimension == "level" and row.is_silent]
    if silent:
        names = figures.listed(figures.group(row.dimension, row.name, row.delay) for row in silent)
        yield f"**Silent** although messages are overdue: {names}."
    if not is_all_zero(report):
        levels = [row for row in report.lateness if figures.is_beside_levels(row.dimension, row.name)]
        yield _lateness([row for row in levels if row.measured] or levels[:1])
        if unused := [
            figures.group(row.dimension, row.name, row.delay) for row in levels[1:] if not row.measured
        ]:
            yield _folded(f"{len(unused)} without deliveries", plain(", ".join(unused)))
        others = [row for row in report.lateness if row not in levels]
        has_brokers = any(row.dimension == "broker" for row in others)
        yield _folded(f"Schemes, profiles, topics, {'brokers, ' * has_brokers}runs", _lateness(others))
    if consumers := [stage for stage in report.stages if stage.dimension == "group"]:
        yield _folded("Consumer groups", _consumers(consumers))
    used = [row for row in report.reconciliation if row.sent] or report.reconciliation[:1]
    yield _folded("Outcomes of the messages", _reconciliation(used))
    yield _folded("The latest messages", _worst(report))
    yield _folded("The data", _quality(report.quality))


def _judgements(what: str, judgements: Sequence[Judgement]) -> str:
    rows = (
        (
            _code(judgement.text),
            "passed" if judgement.passed else "**failed**",
            plain(judgement.actual),
            plain(judgement.reason),
        )
        for judgement in sorted(judgements, key=lambda judgement: judgement.passed)
    )
    return table([what, "", "is", "because"], rows)


def _comparison(comparison: Comparison) -> Iterator[str]:
    names = [side.name for side in comparison.sides]
    yield f"### Compared with {plain(figures.listed(names[:-1]))}"
    if comparison.differences:
        yield _bullets(comparison.differences)
    if comparison.judgements:
        yield _judgements("fail if", comparison.judgements)
    columns = ["", *(f">{plain(name)}" for name in names), ">change", ">ratio"]
    by_group: dict[str, list[list[str]]] = {}
    for change in comparison.changes:
        values = [figures.figure(change.metric, value) for value in change.values]
        delta = figures.change(change.metric, change.deltas[-1])
        row = [change.metric.replace("_", " "), *values, delta, figures.ratio(change.ratios[-1])]
        if figures.is_beside_levels(change.dimension, change.name):
            group = figures.group(change.dimension, change.name, change.delay)
            by_group.setdefault(group, []).append(row)
    for group, rows in by_group.items():
        if group == "total":
            yield table([group, *columns[1:]], rows)
    levels = [
        [group, *row]
        for group, rows in by_group.items()
        for row in rows
        if group != "total" and row[0] in ("p50", "p99", "max") and set(row[1:]) != {figures.NONE}
    ]
    yield _folded("By level", table(["", *columns], levels, most=3 * _MOST_ROWS))


def _lateness(rows: Sequence[Lateness]) -> str:
    percentiles = sorted({name for row in rows for name in row.percentiles}, key=lambda name: float(name[1:]))
    columns = (
        "",
        ">measured",
        ">on time",
        ">early",
        ">overdue",
        *(f">{name}" for name in percentiles),
        ">max",
    )
    lines = (
        [
            plain(figures.group(row.dimension, row.name, row.delay)),
            figures.count(row.measured),
            figures.share(row.on_time_share),
            _alarm(row.early),
            _alarm(row.overdue),
            *(figures.duration(row.percentiles.get(name)) for name in percentiles),
            figures.duration(row.max_us),
        ]
        for row in rows
    )
    return table(columns, lines)


def _reconciliation(rows: Iterable[Reconciliation]) -> str:
    counts = ("sent", "delivered", "pending", "cancelled", "expired", "lost", "repeats", "forced")
    lines = (
        [
            plain(figures.group(row.dimension, row.name, row.delay)),
            *((_alarm if name == "lost" else figures.count)(getattr(row, name)) for name in counts),
        ]
        for row in rows
    )
    return table(["", *(f">{name}" for name in counts)], lines)


def _consumers(stages: Iterable[Stage]) -> str:
    rows = (
        [
            plain(each.name),
            figures.stage(each.stage),
            figures.count(each.count),
            *(figures.duration(value) for value in (each.p50_us, each.p99_us, each.max_us)),
        ]
        for each in stages
    )
    return table(["group", "stage", ">messages", ">p50", ">p99", ">max"], rows)


def _worst(report: Report) -> str:
    rows = (
        (
            figures.duration(one.lateness_us),
            one.state,
            figures.instant(one.due_us),
            "level " + str(one.level) if one.level is not None else plain(figures.scheme(one.scheme)),
            _code(one.topic),
            _code(one.message_id),
        )
        for one in report.worst
    )
    return table([">late", "state", "due", "", "topic", "message"], rows)


def _quality(quality: Quality) -> str:
    lines = [
        f"{figures.count(quality.kept)} of {figures.count(quality.read)} rows could be used",
        f"{figures.count(quality.skewed)} born after they were stored, by the producer's clock",
        *(f"{figures.count(drop.rows)} dropped: {drop.reason}" for drop in quality.dropped),
        *(f"{figures.count(drop.rows)} in an impossible order: {drop.reason}" for drop in quality.disorder),
        *(f"not read: {source.source}: {source.reason}" for source in quality.broken[:_MOST_ROWS]),
    ]
    if len(quality.broken) > _MOST_ROWS:
        lines.append(f"and {len(quality.broken) - _MOST_ROWS} more unreadable sources")
    return _bullets(lines)


def table(columns: Sequence[str], rows: Iterable[Sequence[str]], most: int = _MOST_ROWS) -> str:
    """Make a table. A ``>`` before a column's name marks numbers."""
    lines = [_row(name.removeprefix(">") for name in columns)]
    lines.append(_row("---:" if name[:1] == ">" else "---" for name in columns))
    shown = [_row(row) for row in rows]
    lines += shown[:most]
    if len(shown) > most:
        lines.append(_row([f"and {figures.count(len(shown) - most)} more", *[""] * (len(columns) - 1)]))
    return "\n".join(lines)


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _folded(title: str, content: str) -> str:
    return f"<details><summary>{title}</summary>\n\n{content}\n\n</details>"


def _bullets(sentences: Iterable[str]) -> str:
    return "\n".join(f"- {plain(sentence)}" for sentence in sentences)


def _alarm(number: int) -> str:
    """Format a number that should be 0; any other number is bold."""
    return f"**{figures.count(number)}**" if number else "0"


def plain(text: str) -> str:
    """Escape text for Markdown. Splits @name and #1, so that they do not become links."""

    def harmless(found: re.Match[str]) -> str:
        return f"{found[0]}<!-- -->" if found[0] in "@#" else _entity(found)

    return _SPECIAL.sub(harmless, _short(text))


def _code(text: str) -> str:
    """Format text as code, in HTML if it has a pipe, which would separate cells even between backticks."""
    shown = _short(text)
    if shown.strip() and "`" not in shown and "|" not in shown:
        return f"`{shown}`"
    return f"<code>{_NO_WORD.sub(_entity, shown)}</code>"


def _entity(found: re.Match[str]) -> str:
    return f"&#{ord(found[0])};"


def _short(text: str) -> str:
    shown = figures.harmless(text)
    return shown if len(shown) <= _LONGEST_TEXT else f"{shown[: _LONGEST_TEXT - 1]}…"
