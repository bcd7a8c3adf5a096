"""Write figures for every form of a report: short, and with their unit.

``–`` stands for a missing value. Values that are judged are written in full, by ``judge/metric.py``.
"""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Final

from mocketmq.duration import format_duration

NONE: Final = "–"

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS: Final = ((1, "us"), (1_000, "ms"), (1_000_000, "s"))
_MINUTE_US: Final = 60_000_000
_DECIMALS: Final = 6
_SCHEMES: Final = {
    "levels": "all levels",
    "directories": "start-deliver time",
    "second-directories": "start-deliver time",  # its name in exports of earlier versions
    **{name: f"start-deliver time ({name})" for name in ("wheel", "slots", "sorted")},
    "absolute": "absolute time",
}


def duration(us: float | None) -> str:
    """Microseconds with three digits: ``870us``, ``12.3ms``, ``1.05s``; from a minute on ``7m37s``."""
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
    """A whole number with commas: ``12,345``."""
    return NONE if number is None else f"{round(number):,}"


def share(part: float | None) -> str:
    """A share from 0 to 1 as per cent, with two decimals, or more where it would round to 0% or 100%."""
    if part is None:
        return NONE
    for decimals in range(2, _DECIMALS + 1):
        text = f"{part * 100:.{decimals}f}"
        if part in (0, 1) or float(text) not in (0, 100):
            return f"{plain(text)}%"
    return "<0.000001%" if part < 0.5 else ">99.999999%"


def ratio(times: float | None) -> str:
    """How many times the baseline: ``0.98x``, ``1.50x``, ``24.6x``, ``1,234x``."""
    if times is None:
        return NONE
    if times < 9.995:
        return f"{times:.2f}x"
    return f"{_three(times) if times < 999.5 else count(times)}x"


def rate(per_second: float | None) -> str:
    """A number per second: ``0.34/s``, ``200/s``, ``12,345/s``."""
    if per_second is None:
        return NONE
    return f"{_three(per_second) if per_second < 999.5 else count(per_second)}/s"


def instant(us: int | None) -> str:
    """Epoch microseconds as UTC with milliseconds, rounded down."""
    if us is None:
        return NONE
    try:
        at = _EPOCH + timedelta(microseconds=us)
    except OverflowError:
        return f"{us} us"  # beyond the year 9999
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def figure(metric: str, value: float | None) -> str:
    """The value of a metric of ``document.Change``, in its own unit."""
    if metric == "on_time_share":
        return share(value)
    return duration(value) if is_time(metric) else count(value)


def change(metric: str, delta: float | None) -> str:
    """A difference between two values of a metric, with its sign. Shares differ by points."""
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
    """Whether the metric is a duration: min, mean, max or a percentile."""
    return metric in {"min", "mean", "max"} or (metric[0] == "p" and metric[1:2].isdigit())


def group(dimension: str, name: str, delay: str | None = None) -> str:
    """The name of a group: ``total``, ``level 3 (10s)``, ``topic orders``."""
    if dimension == "total":
        return "total"
    if dimension == "scheme":
        return harmless(scheme(name))
    return harmless(f"{dimension} {name}" + (f" ({delay})" if delay else ""))


def scheme(name: str) -> str:
    """What users call the messages of a delay scheme."""
    return _SCHEMES.get(name, f"scheme {name}")


def is_beside_levels(dimension: str, name: str) -> bool:
    """Whether a group is the total, a level, or messages without levels, which stand beside them."""
    return dimension in ("total", "level") or (dimension == "scheme" and name != "levels")


def stage(name: str) -> str:
    """A stage by its start and its end: ``due → picked``, ``pulled → acknowledged``."""
    return name.replace("-", " → ").replace("acked", "acknowledged")


def harmless(text: str) -> str:
    """Text from outside with control characters spelled out, which a terminal or a page might obey."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def listed(things: Iterable[str], most: int = 5) -> str:
    """``a``, ``a and b``, ``a, b and c``, ``a, b and 7 more``."""
    all_of = list(things)
    if len(all_of) > most:
        all_of = [*all_of[: most - 1], f"{len(all_of) - most + 1} more"]
    return " and ".join([", ".join(all_of[:-1]), all_of[-1]] if len(all_of) > 1 else all_of)


def plain(text: str) -> str:
    """A decimal number without trailing zeros."""
    return text.rstrip("0").rstrip(".") if "." in text else text


def _rounded(us: float, unit_us: int) -> int:
    return round(us / unit_us) * unit_us


def _three(number: float) -> str:
    """A number with three digits, before and after the point."""
    for decimals in (2, 1):
        text = f"{number:.{decimals}f}"
        if len(text) <= 4:
            return plain(text)
    return f"{number:.0f}"
