"""SQL92 filters by RocketMQ's rules: accepted expressions, errors with positions, and results."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mocketmq.broker.filters.filter import EVERYTHING, MAX_SQL_LENGTH, SqlFilter, TagFilter, parse_filter
from mocketmq.broker.filters.sql_expressions import IncomparableError, Long
from mocketmq.broker.filters.sql_grammar import parse
from mocketmq.errors import InvalidArgumentError
from mocketmq.message.properties import encode_properties

ILL: Any = object()
"""Result for values that cannot be compared: no match, whatever the rest of the expression says."""


def value(expression: str, **properties: str) -> Any:
    """Evaluate an expression for a message; returns True, False, None for null, or ILL."""
    try:
        found = parse(expression).evaluate(properties)
    except IncomparableError:
        found = ILL
    accepted = SqlFilter.parse(expression).accepts(encode_properties(properties))
    assert accepted is (found is True)
    return found


# Results


@pytest.mark.parametrize(
    ("expression", "properties", "result"),
    [
        # Numbers: a property is read as the type that it is compared with.
        ("a > 1", {"a": "2"}, True),
        ("a > 1", {"a": "1"}, False),
        ("a > 1", {}, None),
        ("a > 1", {"a": "x"}, ILL),
        ("a > 1", {"a": "2.5"}, ILL),
        ("a > 1", {"a": " 2"}, ILL),
        ("a > 1", {"a": "1_000"}, ILL),
        ("a > 1", {"a": "+2"}, True),
        ("a > -1", {"a": "-0"}, True),
        ("a > 1", {"a": "٣"}, True),
        ("a > 1", {"a": "2147483647"}, True),
        ("a > 1", {"a": "2147483648"}, ILL),
        ("a > 1", {"a": "9" * 5_000}, ILL),
        ("a > 1L", {"a": "2147483648"}, ILL),  # the suffix has no effect, and 1 fits in 32 bits
        ("a > 2147483648", {"a": "2147483649"}, True),
        ("a > 2147483648", {"a": "9223372036854775808"}, ILL),
        ("a = 9223372036854775807", {"a": "9223372036854775807"}, True),
        ("a < -2147483648", {"a": "-2147483649"}, True),
        ("a > 1.0", {"a": "2"}, True),
        ("a > 1.0", {"a": " 2.5f "}, True),
        ("a > 1.0", {"a": "0x1p1"}, True),
        ("a > 1.0", {"a": "0x1p9999"}, True),
        ("a < 1.0", {"a": "-0x1p9999"}, True),
        ("a > 1.0", {"a": "NaN"}, True),  # NaN is above all other numbers
        ("a < 1.0", {"a": "-Infinity"}, True),
        ("a > 1.0", {"a": "inf"}, ILL),
        ("a > 1.0", {"a": "nan"}, ILL),
        ("a > 1.0", {"a": "1e3d"}, True),
        ("a > 1.0", {"a": "1_0"}, ILL),
        ("a = 5.", {"a": "5"}, True),
        ("a = .5", {"a": "5E-1"}, True),
        ("a = 5E1", {"a": "50"}, True),
        ("1 < a", {"a": "2"}, True),
        ("1 = 1.0", {}, True),
        ("2147483648 > 1", {}, True),
        ("1 <> 2", {}, True),
        ("1 = 'x'", {}, ILL),
        ("a >= 2", {"a": "2"}, True),
        ("a <= 2", {"a": "2"}, True),
        # Two properties are compared as doubles, and as text only by =.
        ("a > b", {"a": "10", "b": "9"}, True),
        ("a > b", {"a": "x", "b": "9"}, ILL),
        ("a > b", {"a": "0.0", "b": "-0.0"}, True),
        ("a > b", {"a": "1", "b": "1.0"}, False),
        ("a = b", {"a": "1", "b": "1.0"}, False),
        ("a > b", {"b": "1"}, None),
        ("a > b", {"a": "1"}, None),
        # Null is on the left, or on the right.
        ("a = b", {}, True),
        ("a = b", {"a": "1"}, False),
        ("a = b", {"b": "1"}, None),
        ("a <> 'x'", {}, None),
        ("'x' <> a", {}, True),
        ("a = 'x'", {"a": "x"}, True),
        ("a = 'x'", {"a": "X"}, False),
        ("a = 'it''s'", {"a": "it's"}, True),
        ("a = ''", {"a": "x"}, False),
        ("a IS NULL", {}, True),
        ("a IS NULL", {"a": "1"}, False),
        ("a IS NOT NULL", {"a": "1"}, True),
        ("a is not null", {}, False),
        ("a > 1 IS NULL", {}, True),
        ("NULL IS NULL", {}, True),
        # Booleans: text is read as a boolean only on the left.
        ("a = TRUE", {"a": "tRUE"}, True),
        ("a = TRUE", {"a": "yes"}, False),
        ("a = FALSE", {"a": "yes"}, True),
        ("'true' = TRUE", {}, True),
        ("TRUE = a", {"a": "true"}, ILL),
        ("TRUE = a", {}, False),
        ("TRUE = TRUE", {}, True),
        ("1 = TRUE", {}, False),
        ("TRUE", {}, True),
        ("NULL", {}, None),
        ("a", {"a": "true"}, False),
        ("a", {}, None),
        ("NOT a", {"a": "true"}, True),
        ("NOT a", {}, None),
        ("NOT a = 1", {"a": "1"}, False),  # (NOT a) = 1
        ("NOT (a = 1)", {"a": "2"}, True),
        ("NOT NOT TRUE", {}, True),
        # AND and OR.
        ("a = 1 OR b = 'x'", {"b": "x"}, True),
        ("a = 1 OR b = 'x'", {"a": "y", "b": "x"}, ILL),
        ("b = 'x' OR a = 1", {"a": "y", "b": "x"}, True),
        ("a = 1 AND b = 'x'", {"b": "y"}, False),
        ("a = 1 AND b = 'x'", {"b": "x"}, None),
        ("a = 1 OR b = 'x'", {"b": "y"}, None),
        ("b = 'x' AND a = 1", {"a": "y", "b": "y"}, False),
        ("a = 1 AND a = 2 OR TRUE", {"a": "1"}, True),
        ("a = 2 AND (a = 1 OR TRUE)", {"a": "1"}, False),
        ("NULL AND FALSE", {}, False),
        ("NULL OR TRUE", {}, True),
        ("TRUE AND NULL AND TRUE", {}, None),
        # BETWEEN.
        ("a BETWEEN 1 AND 3", {"a": "3"}, True),
        ("a BETWEEN 1 AND 3", {"a": "4"}, False),
        ("a BETWEEN 1 AND 3", {}, None),
        ("a BETWEEN 1 AND 3", {"a": "x"}, ILL),
        ("a BETWEEN 1 AND 3.5", {"a": "3"}, True),
        ("a BETWEEN 1 AND 3.5", {"a": "3.5"}, ILL),
        ("a BETWEEN b AND 3", {"a": "3"}, None),
        ("a BETWEEN b AND 3", {"a": "4"}, False),
        ("a BETWEEN -1 AND -3", {"a": "-2"}, False),
        ("a NOT BETWEEN 1 AND 3", {"a": "4"}, True),
        ("a NOT BETWEEN 1 AND 3", {"a": "1"}, False),
        ("a NOT BETWEEN 3 AND 1", {"a": "2"}, True),
        ("a NOT BETWEEN b AND 3", {"a": "4"}, True),
        ("a NOT BETWEEN b AND 3", {"a": "1"}, None),
        ("5 BETWEEN a AND b", {"a": "1", "b": "9"}, True),
        ("a BETWEEN 1 AND 3 AND b = 'x'", {"a": "2", "b": "x"}, True),
        # IN.
        ("a IN ('x')", {"a": "x"}, True),
        ("a IN ('x', 'y', 'it''s')", {"a": "it's"}, True),
        ("a IN ('x')", {"a": "y"}, False),
        ("a IN ('x')", {}, None),
        ("a NOT IN ('x')", {"a": "y"}, True),
        ("a NOT IN ('x')", {"a": "x"}, False),
        ("a NOT IN ('x')", {}, None),
        ("NOT (a IN ('x'))", {"a": "y"}, True),
        ("(a) IN ('1', '2', '3', '4', '5', '6')", {"a": "6"}, True),
        # Parts of text; with an empty part the condition never holds.
        ("a CONTAINS 'b'", {"a": "abc"}, True),
        ("a CONTAINS 'b'", {}, False),
        ("a CONTAINS ''", {"a": "abc"}, False),
        ("a NOT CONTAINS 'b'", {"a": "xyz"}, True),
        ("a NOT CONTAINS 'b'", {}, False),
        ("a NOT CONTAINS ''", {"a": "x"}, False),
        ("NOT (a CONTAINS 'b')", {}, True),
        ("a STARTSWITH 'a'", {"a": "abc"}, True),
        ("a startswith 'b'", {"a": "abc"}, False),
        ("a NOT STARTSWITH 'b'", {"a": "abc"}, True),
        ("a ENDSWITH 'c'", {"a": "abc"}, True),
        ("a NOT ENDSWITH 'c'", {"a": "abc"}, False),
        ("'abc' CONTAINS 'b'", {}, True),
        ("(a > 1) CONTAINS 't'", {"a": "2"}, False),
        # Signs.
        ("a = -5", {"a": "-5"}, True),
        ("a = +5", {"a": "5"}, True),
        ("a = - -5", {"a": "5"}, True),
        ("-a = -5", {"a": "5"}, None),
        ("-a < 5", {"a": "5"}, None),
        ("a > -1.5", {"a": "-1"}, True),
        ("-(a = 1) IS NULL", {"a": "1"}, True),
        # Syntax.
        ("A = 1", {"a": "1"}, None),
        ("$a_1 = '订单'", {"$a_1": "订单"}, True),
        ("TAGS IN ('x') and KEYS is null", {"TAGS": "x"}, True),
        ("a\t=\r\n1 -- the first\n OR /* never * */ FALSE", {"a": "1"}, True),
        ("a = 1 -- no line follows", {"a": "1"}, True),
        ("a = '-- no comment'", {"a": "-- no comment"}, True),
        ("notx = 1 AND inner = 2", {"notx": "1", "inner": "2"}, True),
        ("(((a)) = ((1)))", {"a": "1"}, True),
    ],
)
def test_valid_messages(expression: str, properties: Mapping[str, str], result: Any) -> None:
    assert value(expression, **properties) is result


# Refusals


@pytest.mark.parametrize(
    ("expression", "column", "reason"),
    [
        ("", 1, "the expression ends too early; expected: 'text', (, +, -, a number, a property,"),
        ("a >", 4, "the expression ends too early"),
        ("a = 1 AND", 10, "the expression ends too early"),
        ("(a = 1", 7, "the expression ends too early; expected: )"),
        ("a = 1)", 6, ") is not expected here; expected: the end"),
        ("a = 1 b = 2", 7, "b is not expected here"),
        ("a LIKE 'x%'", 3, "LIKE is not expected here"),
        ("a = AND", 5, "AND is not expected here"),
        ("a != 1", 3, "'!' is not part of SQL92; write <> for unequal"),
        ("a == 1", 4, "= is not expected here"),
        ('a = "x"', 5, "'\"' is not part of SQL92; put text in 'single quotes'"),
        ("a.b = 1", 2, "'.' is not part of SQL92"),
        ("a; b", 2, "';' is not part of SQL92"),
        ("ſ IS NULL", 1, "'ſ' is not part of SQL92"),
        ("a İS NULL", 3, "'İ' is not part of SQL92"),
        ("a = 'x", 5, "the text that begins here has no closing quote"),
        ("a = 1 /* x", 7, "the comment that begins here is not closed"),
        ("a = 007", 6, "0 is not expected here"),
        ("a + 1 > 2", 3, "+ is not expected here"),
        ("5", 1, "this is neither true nor false"),
        ("'x' OR a = 1", 1, "this is neither true nor false"),
        ("a = 1 OR -5", 10, "this is neither true nor false"),
        ("NOT 'x'", 5, "this is neither true nor false"),
        ("a = NULL", 5, "NULL cannot be compared; allowed: IS NULL and IS NOT NULL"),
        ("NULL <> a", 1, "NULL cannot be compared"),
        ("TRUE = 1", 1, "TRUE and FALSE cannot be compared with text or a number"),
        ("a > 'x'", 5, "this cannot be compared by >, >=, <, <= and BETWEEN"),
        ("a > '5'", 5, "this cannot be compared by"),
        ("TRUE < a", 1, "this cannot be compared by"),
        ("a > NULL", 5, "this cannot be compared by"),
        ("a > 1 > 2", 1, "this cannot be compared by"),
        ("a BETWEEN 3 AND 1", 11, "BETWEEN needs its lower bound first, not 3 AND 1"),
        ("a BETWEEN NULL AND 1", 11, "this cannot be compared by"),
        ("a BETWEEN 1 AND 'x'", 17, "this cannot be compared by"),
        ("a NOT BETWEEN TRUE AND 1", 15, "this cannot be compared by"),
        ("'x' IN ('x')", 1, "only a property can be IN a list"),
        ("NOT a IN ('x')", 1, "only a property can be IN a list"),
        ("a IN ()", 7, ") is not expected here; expected: 'text'"),
        ("a IN (1)", 7, "1 is not expected here; expected: 'text'"),
        ("a CONTAINS b", 12, "b is not expected here; expected: 'text'"),
        ("a = 9223372036854775808", 5, "9223372036854775808 is too large"),
        ("a = " + "9" * 5_000, 5, "9" * 39 + "… is too large"),
        ("a = -9223372036854775808", 6, "9223372036854775808 is too large"),
        ("a > 0.0", 5, "0.0 is less than 4.9E-324"),
        ("a > 1e999", 5, "1e999 is greater than 1.7976931348623157E308"),
        ("NOT " * 99 + "TRUE", None, ""),
        ("NOT " * 100 + "TRUE", 1, "more than 100 expressions are nested here"),
        ("(" * 5_000 + "a = 1" + ")" * 5_000, None, ""),
        (" OR ".join(["a = 1"] * 1_000), None, ""),
    ],
)
def test_invalid_expressions(expression: str, column: int | None, reason: str) -> None:
    if column is None:
        SqlFilter.parse(expression)
        return
    with pytest.raises(InvalidArgumentError) as refused:
        SqlFilter.parse(expression)
    assert str(refused.value).startswith(f"line 1, column {column} of the filter: {reason}")
    assert (refused.value.field, len(str(refused.value)) < 400) == ("filter", True)


def test_lines_are_counted() -> None:
    with pytest.raises(InvalidArgumentError, match="line 3, column 2 of the filter: "):
        SqlFilter.parse("a = 1\n OR\n & b")


def test_an_expression_has_an_end() -> None:
    longest = "a = '" + "x" * (MAX_SQL_LENGTH - 6) + "'"
    assert SqlFilter.parse(longest) is SqlFilter.parse(longest)
    with pytest.raises(InvalidArgumentError, match="the filter is longer than 16,384 characters"):
        SqlFilter.parse(longest + " ")


def test_a_filter_has_exactly_one_kind() -> None:
    assert parse_filter("*") is EVERYTHING
    assert isinstance(parse_filter("a > 1", "TAG"), TagFilter)
    assert isinstance(parse_filter("a > 1", "SQL92"), SqlFilter)
    with pytest.raises(InvalidArgumentError):
        parse_filter(None, "SQL92")


# Comparison with a model: trees with known values, written as text

NAMES = ("a", "b", "c")
PROPERTIES = st.dictionaries(
    st.sampled_from(NAMES), st.sampled_from(["0", "1", "7", "-3", "2.5", "x", "true"])
)
NUMBERS = st.sampled_from([0, 1, 2, 7, -3, 2.5, 3_000_000_000])
TEXTS = st.sampled_from(["0", "1", "x", "true", "it's"])
Tree = tuple[Any, ...]


def leaves() -> st.SearchStrategy[Tree]:
    """Generate comparisons of properties with numbers and texts."""
    names = st.sampled_from(NAMES)
    orders = st.sampled_from([">", ">=", "<", "<="])
    return st.one_of(
        st.tuples(orders, names, NUMBERS),
        st.tuples(st.sampled_from(["=", "<>"]), names, st.one_of(NUMBERS, TEXTS)),
        st.tuples(st.sampled_from(["IN", "NOT IN"]), names, st.lists(TEXTS, min_size=1, max_size=6)),
        st.tuples(st.sampled_from(["IS NULL", "IS NOT NULL"]), names),
    )


TREES = st.recursive(
    leaves(),
    lambda inner: st.one_of(
        st.tuples(st.sampled_from(["AND", "OR"]), inner, inner), st.tuples(st.just("NOT"), inner)
    ),
    max_leaves=12,
)


def written(tree: Tree) -> str:
    """Write the tree as an expression."""
    match tree:
        case ("AND" | "OR" as word, left, right):
            return f"({written(left)}) {word} ({written(right)})"
        case ("NOT", inner):
            return f"NOT ({written(inner)})"
        case (word, name, list(texts)):
            return f"{name} {word} ({', '.join(map(quoted, texts))})"
        case (word, name, str(text)):
            return f"{name} {word} {quoted(text)}"
        case (word, name, number):
            return f"{name} {word} {number}"
        case (word, name):
            return f"{name} {word}"
    raise AssertionError(tree)


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def modelled(tree: Tree, properties: Mapping[str, str]) -> bool | None:
    """Return the value of the tree. Raises IncomparableError."""
    match tree:
        case ("AND" | "OR" as word, left, right):
            decisive = word == "OR"
            found = modelled(left, properties)
            if found is decisive:
                return decisive
            other = modelled(right, properties)
            if other is decisive:
                return decisive
            return None if found is None or other is None else not decisive
        case ("NOT", inner):
            found = modelled(inner, properties)
            return None if found is None else not found
        case ("IS NULL", name):
            return name not in properties
        case ("IS NOT NULL", name):
            return name in properties
    word, name, wanted = tree
    if name not in properties:
        return None
    given_text = properties[name]
    if isinstance(wanted, list):
        return (given_text in wanted) is (word == "IN")
    if isinstance(wanted, str):
        return (given_text == wanted) is (word == "=")
    try:
        number = float(given_text) if isinstance(wanted, float) else int(given_text)
    except ValueError:
        raise IncomparableError from None
    orders = {
        ">": number > wanted,
        ">=": number >= wanted,
        "<": number < wanted,
        "<=": number <= wanted,
        "=": number == wanted,
        "<>": number != wanted,
    }
    return bool(orders[word])


@given(TREES, PROPERTIES)
def test_filters_agree_with_the_model(tree: Tree, properties: dict[str, str]) -> None:
    try:
        expected: Any = modelled(tree, properties)
    except IncomparableError:
        expected = ILL
    assert value(written(tree), **properties) is expected


@given(st.text(max_size=40), PROPERTIES)
def test_any_text_is_read_or_refused(text: str, properties: dict[str, str]) -> None:
    try:
        chosen = SqlFilter.parse(text)
    except InvalidArgumentError:
        return
    assert chosen.accepts(encode_properties(properties)) in (True, False)


WORDS = ("a", "b", "1", "2.5", "'x'", "(", ")", ",", "=", "<>", ">", "<=", "+", "-", "NOT", "AND", "OR", "IN")
MORE_WORDS = ("BETWEEN", "IS", "NULL", "TRUE", "CONTAINS")


@given(st.lists(st.sampled_from(WORDS + MORE_WORDS), max_size=12), PROPERTIES)
def test_any_words_are_read_or_refused(words: list[str], properties: dict[str, str]) -> None:
    try:
        chosen = SqlFilter.parse(" ".join(words))
    except InvalidArgumentError as error:
        assert " of the filter: " in str(error)
        return
    assert chosen.accepts(encode_properties(properties)) in (True, False)


def test_a_64_bit_number_is_kept_exactly() -> None:
    found = parse("-3000000000 = a").evaluate({"a": "-3000000000"})
    assert found is True
    assert isinstance(Long(1), int)
