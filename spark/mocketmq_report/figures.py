"""Formats figures for all forms of a report: short, with units.

``–`` means a missing value. ``judge/metric.py`` formats judged values in full.
"""

from collections.abc import Iterable
from typing import Final

from mocketmq.duration import format_duration
from mocketmq.instant import format_instant

NONE: Final = "–"

_UNITS: Final = ((1, "µs"), (1_000, "ms"), (1_000_000, "s"))
_MINUTE_US: Final = 60_000_000
_DECIMALS: Final = 6
_SCHEMES: Final = {
    "levels": "all levels",
    "directories": "start-deliver time",
    "second-directories": "start-deliver time",  # the name of ``directories`` in earlier exports
    **{name: f"start-deliver time ({name})" for name in ("wheel", "slots", "sorted")},
    "absolute": "absolute time",
}


def duration(us: float | None) -> str:
    """Format microseconds with three digits: ``870µs``, ``12.3ms``, ``1.05s``; from a minute on ``7m37s``."""
    if us is None:
        return NONE
    size = abs(us)
    sign = "-" if us < 0 else ""
    if size >= 100 * _MINUTE_US:
        return sign + format_duration(_rounded(size, _MINUTE_US))
    if _rounded(size, 100_000) >= _MINUTE_US:
        return sign + format_duration(_rounded(size, 1_000_000))
    for unit_us, unit in _UNITS:
        digits = _three(size / unit_us)
        if float(digits) < 1_000 or unit == "s":
            return f"{sign}{digits}{unit}" if float(digits) else "0"
    raise AssertionError


def count(number: float | None) -> str:
    """Format a whole number with commas: ``12,345``."""
    return NONE if number is None else f"{round(number):,}"


def share(part: float | None) -> str:
    """Format a share from 0 to 1 as per cent: two decimals, or more if these would round to 0% or 100%."""
    if part is None:
        return NONE
    for decimals in range(2, _DECIMALS + 1):
        text = f"{part * 100:.{decimals}f}"
        if part in (0, 1) or float(text) not in (0, 100):
            return f"{plain(text)}%"
    return "<0.000001%" if part < 0.5 else ">99.999999%"


def ratio(times: float | None) -> str:
    """Format a multiple of the baseline: ``0.98x``, ``1.50x``, ``24.6x``, ``1,234x``."""
    if times is None:
        return NONE
    if times < 9.995:
        return f"{times:.2f}x"
    return f"{_three(times) if times < 999.5 else count(times)}x"


def rate(per_second: float | None) -> str:
    """Format a number per second: ``0.34/s``, ``200/s``, ``12,345/s``."""
    if per_second is None:
        return NONE
    return f"{_three(per_second) if per_second < 999.5 else count(per_second)}/s"


def instant(us: int | None) -> str:
    """Format epoch microseconds as UTC with milliseconds, rounded down."""
    return NONE if us is None else format_instant(us)


def figure(metric: str, value: float | None) -> str:
    """Format the value of a metric of ``document.Change``, in the metric's unit."""
    if metric == "on_time_share":
        return share(value)
    return duration(value) if is_time(metric) else count(value)


def change(metric: str, delta: float | None) -> str:
    """Format the difference between two values of a metric, with its sign. Shares differ by points."""
    if delta is None:
        return NONE
    if delta == 0:
        return "±0"
    text = (
        f"{plain(f'{abs(delta) * 100:.2f}')} points"
        if metric == "on_time_share"
        else figure(metric, abs(delta))
    )
    return f"{'+' if delta > 0 else '-'}{text}"


def is_time(metric: str) -> bool:
    """Return whether the metric is a duration: min, mean, max or a percentile."""
    return metric in {"min", "mean", "max"} or (metric[0] == "p" and metric[1:2].isdigit())


def group(dimension: str, name: str, delay: str | None = None) -> str:
    """Name a group: ``total``, ``level 3 (10s)``, ``topic orders``."""
    if dimension == "total":
        return "total"
    if dimension == "scheme":
        return harmless(scheme(name))
    return harmless(f"{dimension} {name}" + (f" ({delay})" if delay else ""))


def scheme(name: str) -> str:
    """Return the users' term for the messages of a delay scheme."""
    return _SCHEMES.get(name, f"scheme {name}")


def is_beside_levels(dimension: str, name: str) -> bool:
    """Return whether a group is the total, a level, or a scheme without levels."""
    return dimension in ("total", "level") or (dimension == "scheme" and name != "levels")


def stage(name: str) -> str:
    """Name a stage by its start and its end: ``due → picked``, ``pulled → acknowledged``."""
    return name.replace("-", " → ").replace("acked", "acknowledged")


def harmless(text: str) -> str:
    """Escape control characters in external text, because they could affect a terminal or a page."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def listed(things: Iterable[str], most: int = 5) -> str:
    """Join names: ``a``, ``a and b``, ``a, b and c``, ``a, b and 7 more``."""
    all_of = list(things)
    if len(all_of) > most:
        all_of = [*all_of[: most - 1], f"{len(all_of) - most + 1} more"]
    return " and ".join([", ".join(all_of[:-1]), all_of[-1]] if len(all_of) > 1 else all_of)


def plain(text: str) -> str:
    """Remove trailing zeros from a decimal number."""
    return text.rstrip("0").rstrip(".") if "." in text else text


def _rounded(us: float, unit_us: int) -> int:
    return round(us / unit_us) * unit_us


def _three(number: float) -> str:
    """Format a number with three digits in total, before and after the point."""
    for decimals in (2, 1):
        text = f"{number:.{decimals}f}"
        if len(text) <= 4:
            return plain(text)
    return f"{number:.0f}"
