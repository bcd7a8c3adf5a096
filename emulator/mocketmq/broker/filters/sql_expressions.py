"""The evaluation of SQL92 expressions over a message's properties, by the rules of RocketMQ 5.3.3.

Each function makes an expression from its operands, and refuses operands that RocketMQ's parser refuses. The
source is ``filter/.../expression`` of 5.3.3, mainly ComparisonExpression. Some rules are surprising:

- A property is text, or null if the message does not have it. If it is compared with a number, its text is
  parsed as the type of that number: ``a > 1`` needs 32 bits, ``a > 9999999999`` 64, and only ``a > 1.0``
  accepts ``2.5``.
- Text that cannot be parsed ends the evaluation. The message then does not match, even if the other side of
  an OR would.
- ``=`` is false if only its right side is null, and null if only its left side is null. Two nulls are equal.
- A property by itself is never true, only false or null.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from math import copysign, inf, isnan
from operator import ge, gt, le, lt
from typing import Final

import msgspec

MAX_DEPTH: Final = 100
"""Maximum depth of nesting. RocketMQ accepts as many levels as fit on a thread's stack."""

_SMALLEST: Final = 5e-324
_INT32: Final = range(-(1 << 31), 1 << 31)
_INT64: Final = range(-(1 << 63), 1 << 63)
_WHOLE: Final = re.compile(r"[+-]?\d+")
_DOUBLE: Final = re.compile(
    r"[\0- ]*(?P<number>(?P<sign>[+-]?)(?:NaN|Infinity"
    r"|(?P<hex>0[xX](?:[\da-fA-F]+\.?|[\da-fA-F]*\.[\da-fA-F]+)[pP][+-]?\d+)"
    r"|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?))(?:(?<![yN])[fFdD])?[\0- ]*",
    re.ASCII,
)


class Long(int):
    """A 64-bit whole number. Properties compared with it are parsed as 64 bits; an ``int`` here has 32."""


Value = str | bool | int | float | None
Properties = Mapping[str, str]
Evaluate = Callable[[Properties], Value]


class ExpressionError(Exception):
    """A mistake in the expression at ``start``, an index into its text."""

    def __init__(self, start: int, reason: str) -> None:
        super().__init__(reason)
        self.start = start


class IncomparableError(Exception):
    """Two values cannot be compared, so the message does not match."""


class Expression(msgspec.Struct, frozen=True):
    """An expression that can be evaluated, from ``start`` to ``end`` of the text. ``depth`` counts nesting.

    A constant has its value in ``constant``, in a tuple because the value may be null. A property has a name.
    """

    start: int
    end: int
    evaluate: Evaluate
    is_boolean: bool = False
    constant: tuple[()] | tuple[Value] = ()
    property_name: str | None = None
    depth: int = 1

    def is_true(self, properties: Properties) -> bool:
        """Whether the expression is true, rather than false, null or not comparable."""
        try:
            return self.evaluate(properties) is True
        except IncomparableError:
            return False


# Values


def text(start: int, end: int, value: str) -> Expression:
    """Text in quotes."""
    return _constant(start, end, value)


def boolean(start: int, end: int, value: bool | None) -> Expression:
    """TRUE, FALSE or NULL."""
    return _constant(start, end, value, is_boolean=True)


def whole(start: int, end: int, digits: str) -> Expression:
    """A whole number, of 32 bits if it fits, otherwise of 64."""
    value = int(digits) if len(digits) < len(str(_INT64.stop)) + 1 else _INT64.stop
    if value not in _INT64:
        raise ExpressionError(start, f"{_cut(digits)} is too large; allowed: up to {_INT64.stop - 1}")
    return _constant(start, end, value if value in _INT32 else Long(value))


def floating(start: int, end: int, digits: str) -> Expression:
    """A number with a fraction or an exponent.

    As in RocketMQ, zero is refused, because it is below the smallest positive double.
    """
    value = float(digits)
    if not _SMALLEST <= value < inf:
        limit = "1.7976931348623157E308" if value == inf else "4.9E-324"
        relation = "greater" if value == inf else "less"
        raise ExpressionError(
            start,
            f"{_cut(digits)} is {relation} than {limit}; write a whole number without point and exponent",
        )
    return _constant(start, end, value)


def property_named(start: int, end: int, name: str) -> Expression:
    """A property of the message."""
    return Expression(start, end, lambda properties: properties.get(name), property_name=name)


def negative(start: int, operand: Expression) -> Expression:
    """A number with its sign changed; null for any other operand."""
    evaluate = operand.evaluate

    def value(properties: Properties) -> Value:
        found = evaluate(properties)
        if isinstance(found, bool) or not isinstance(found, int | float):
            return None
        return type(found)(-found)

    return _inner(start, operand.end, value, operand)


def _constant(start: int, end: int, value: Value, *, is_boolean: bool = False) -> Expression:
    return Expression(start, end, lambda _: value, is_boolean, (value,))


# Logic


def as_boolean(operand: Expression) -> Expression:
    """The expression as a condition. Text counts as false, and so does any property."""
    if operand.is_boolean:
        return operand
    if operand.property_name is None:
        raise ExpressionError(operand.start, "this is neither true nor false, so it cannot be a condition")
    evaluate = operand.evaluate
    return _condition(
        operand.start,
        operand.end,
        lambda properties: None if evaluate(properties) is None else False,
        operand,
    )


def negated(start: int, operand: Expression) -> Expression:
    """NOT."""
    return _not(start, as_boolean(operand))


def _not(start: int, operand: Expression) -> Expression:
    evaluate = operand.evaluate

    def value(properties: Properties) -> Value:
        found = evaluate(properties)
        return None if found is None else not found

    return _condition(start, operand.end, value, operand)


def all_of(operands: Sequence[Expression]) -> Expression:
    """AND: operands after a false one are not evaluated."""
    return _first_that_is(False, operands)


def any_of(operands: Sequence[Expression]) -> Expression:
    """OR: operands after a true one are not evaluated."""
    return _first_that_is(True, operands)


def _first_that_is(decisive: bool, operands: Sequence[Expression]) -> Expression:
    conditions = [as_boolean(operand) for operand in operands]
    evaluates = [condition.evaluate for condition in conditions]

    def value(properties: Properties) -> Value:
        is_known = True
        for evaluate in evaluates:
            found = evaluate(properties)
            if found is decisive:
                return decisive
            is_known = is_known and found is not None
        return not decisive if is_known else None

    return _condition(conditions[0].start, conditions[-1].end, value, *conditions)


# Comparing


def equal(left: Expression, right: Expression) -> Expression:
    """``=``. Raises ExpressionError for a literal NULL."""
    for operand in (left, right):
        if operand.constant == (None,):
            raise ExpressionError(operand.start, "NULL cannot be compared; allowed: IS NULL and IS NOT NULL")
    if left.constant and right.constant and left.is_boolean and not right.is_boolean:
        raise ExpressionError(left.start, "TRUE and FALSE cannot be compared with text or a number")
    return _equal(left, right, right.end)


def not_equal(left: Expression, right: Expression) -> Expression:
    """``<>``."""
    return _not(left.start, equal(left, right))


def is_null(left: Expression, end: int) -> Expression:
    """IS NULL."""
    return _equal(left, boolean(end, end, None), end)


def is_not_null(left: Expression, end: int) -> Expression:
    """IS NOT NULL."""
    return _not(left.start, is_null(left, end))


def _equal(left: Expression, right: Expression, end: int) -> Expression:
    one, other = left.evaluate, right.evaluate

    def value(properties: Properties) -> Value:
        a, b = one(properties), other(properties)
        if a is None:
            return True if b is None else None
        return b is not None and _compare(a, b) == 0

    return _condition(left.start, end, value, left, right)


def between(value: Expression, low: Expression, high: Expression) -> Expression:
    """BETWEEN. Of two constant bounds, the first must not be above the second; ``-1`` is no constant."""
    ranged = _ranged(value, low, high, decisive=False)
    if low.constant and high.constant and _compare(high.constant[0], low.constant[0]) < 0:
        bounds = f"{low.constant[0]} AND {high.constant[0]}"
        raise ExpressionError(low.start, f"BETWEEN needs its lower bound first, not {bounds}")
    return ranged


def not_between(value: Expression, low: Expression, high: Expression) -> Expression:
    """NOT BETWEEN. With bounds in the wrong order it is always true, as in RocketMQ."""
    return _ranged(value, low, high, decisive=True)


def _ranged(value: Expression, low: Expression, high: Expression, *, decisive: bool) -> Expression:
    """``value >= low AND value <= high``, or ``value < low OR value > high``; evaluates the value once."""
    for operand in (value, low, high):
        _check_ordered(operand)
    outer, inner = (lt, gt) if decisive else (ge, le)

    def holds(properties: Properties) -> Value:
        found = value.evaluate(properties)
        if found is None:
            return None
        first = _decide(found, low.evaluate(properties), outer)
        if first is decisive:
            return decisive
        second = _decide(found, high.evaluate(properties), inner)
        if second is decisive:
            return decisive
        return None if first is None or second is None else not decisive

    return _condition(value.start, high.end, holds, value, low, high)


def ordered(left: Expression, right: Expression, holds: Callable[[int, int], bool]) -> Expression:
    """``>``, ``>=``, ``<`` or ``<=``: ``holds`` tests the result of the comparison against 0."""
    _check_ordered(left)
    _check_ordered(right)
    one, other = left.evaluate, right.evaluate

    def value(properties: Properties) -> Value:
        found = one(properties)
        return None if found is None else _decide(found, other(properties), holds)

    return _condition(left.start, right.end, value, left, right)


def _check_ordered(operand: Expression) -> None:
    is_number = operand.constant and not isinstance(operand.constant[0], str | bool | None)
    if operand.is_boolean or (operand.constant and not is_number):
        raise ExpressionError(
            operand.start, "this cannot be compared by >, >=, <, <= and BETWEEN; numbers and properties can"
        )


def _decide(left: Value, right: Value, holds: Callable[[int, int], bool]) -> bool | None:
    if left is None or right is None:
        return None
    if isinstance(left, str) and isinstance(right, str):
        return holds(_compare(_double(left), _double(right)), 0)
    return holds(_compare(left, right), 0)


# Text


def one_of(left: Expression, texts: Sequence[str], end: int, *, is_not: bool) -> Expression:
    """IN and NOT IN."""
    if left.property_name is None:
        raise ExpressionError(left.start, "only a property can be IN a list")
    wanted, name = frozenset(texts), left.property_name

    def value(properties: Properties) -> Value:
        found = properties.get(name)
        return None if found is None else (found in wanted) is not is_not

    return _condition(left.start, end, value, left)


def having(
    left: Expression, search: str, end: int, test: Callable[[str, str], bool], *, is_not: bool
) -> Expression:
    """CONTAINS, STARTSWITH or ENDSWITH by ``test``, or its negation; true only if both sides are text."""
    evaluate = left.evaluate

    def value(properties: Properties) -> Value:
        if not search:
            return False
        found = evaluate(properties)
        return isinstance(found, str) and test(found, search) is not is_not

    return _condition(left.start, end, value, left)


# Comparing values


def _compare(left: Value, right: Value) -> int:
    """Compare like RocketMQ's ``__compare``. The result is negative for values without an order."""
    kind, other = type(left), type(right)
    if kind is not other:
        if isinstance(left, str):
            left = _READERS[other](left)
        elif isinstance(right, str):
            if kind is bool:
                raise IncomparableError  # as in RocketMQ, which mistakes the boolean for the text
            right = _READERS[kind](right)
        elif bool in (kind, other):
            return -1
    if isinstance(left, float) or isinstance(right, float):
        return _compare_doubles(float(left), float(right))  # type: ignore[arg-type]
    return (left > right) - (left < right)  # type: ignore[operator]


def _compare_doubles(left: float, right: float) -> int:
    """Compare like Double.compareTo, with NaN above all other values and 0 above -0."""
    if isnan(left) or isnan(right):
        return isnan(left) - isnan(right)
    if left == right:
        left, right = copysign(1.0, left), copysign(1.0, right)
    return (left > right) - (left < right)


def _integer(value: str) -> int:
    return _whole_in(_INT32, value)


def _long(value: str) -> int:
    return Long(_whole_in(_INT64, value))


def _whole_in(allowed: range, value: str) -> int:
    try:
        number = int(value) if _WHOLE.fullmatch(value) else None
    except ValueError:  # int() refuses thousands of digits
        number = None
    if number is None or number not in allowed:
        raise IncomparableError
    return number


def _double(value: str) -> float:
    """Parse like Double.valueOf, which allows spaces around the number and a type letter after it."""
    match = _DOUBLE.fullmatch(value)
    if match is None:
        raise IncomparableError
    try:
        return float.fromhex(match["number"]) if match["hex"] else float(match["number"])
    except OverflowError:
        return -inf if match["sign"] == "-" else inf


def _boolean(value: str) -> bool:
    return value.lower() == "true"


_READERS: Final[Mapping[type, Callable[[str], Value]]] = {
    bool: _boolean,
    int: _integer,
    Long: _long,
    float: _double,
}


def _condition(start: int, end: int, evaluate: Evaluate, *operands: Expression) -> Expression:
    return _inner(start, end, evaluate, *operands, is_boolean=True)


def _inner(
    start: int, end: int, evaluate: Evaluate, *operands: Expression, is_boolean: bool = False
) -> Expression:
    depth = 1 + max(operand.depth for operand in operands)
    if depth > MAX_DEPTH:
        raise ExpressionError(start, f"more than {MAX_DEPTH} expressions are nested here")
    return Expression(start, end, evaluate, is_boolean, depth=depth)


def _cut(digits: str) -> str:
    return digits if len(digits) <= 40 else f"{digits[:39]}…"
