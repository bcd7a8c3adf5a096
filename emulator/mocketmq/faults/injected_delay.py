"""How late something is to be: a constant, a distribution, or durations that were recorded elsewhere."""

import re
from collections.abc import Callable, Sequence
from random import Random
from typing import Final

from mocketmq.duration import parse_duration_us
from mocketmq.errors import InvalidArgumentError

Lateness = Callable[[Random], int]
"""Draws microseconds, 0 or more."""

_ALLOWED: Final = (
    "a duration such as 2s; uniform(1s, 5s), normal(2s, 500ms) of mean and deviation,"
    " exponential(2s) of a mean; or a list of durations to draw from"
)
_CALL: Final = re.compile(r"(uniform|normal|exponential)\(([^()]*)\)")
_ARGUMENTS: Final = {"uniform": 2, "normal": 2, "exponential": 1}


def lateness(by: str | Sequence[str], field: str = "by") -> Lateness:
    """The lateness that a rule's ``by``, or another ``field``, stands for. Raises InvalidArgumentError."""
    if not isinstance(by, str):
        if not by:
            raise InvalidArgumentError(field, by, _ALLOWED)
        recorded = [parse_duration_us(each, field) for each in by]
        return lambda random: random.choice(recorded)
    call = _CALL.fullmatch(by.strip())
    if call is None:
        if "(" in by:
            raise InvalidArgumentError(field, by, _ALLOWED)
        constant = parse_duration_us(by, field)
        return lambda _random: constant
    values = [parse_duration_us(each.strip(), field) for each in call[2].split(",")]
    if len(values) != _ARGUMENTS[call[1]] or (call[1] == "uniform" and values[0] > values[1]):
        raise InvalidArgumentError(field, by, _ALLOWED)
    first, second = values[0], values[-1]
    if call[1] == "uniform":
        return lambda random: random.randint(first, second)
    if call[1] == "normal":
        return lambda random: max(0, round(random.gauss(first, second)))
    return lambda random: round(random.expovariate(1 / first)) if first else 0
