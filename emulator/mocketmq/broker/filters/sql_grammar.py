"""The grammar and parser of SQL92 filters. Imported on first use, because importing Lark is slow.

The grammar follows SelectorParser.jj of RocketMQ 5.3.3 with two exceptions. Text after the expression is
refused, while RocketMQ silently ignores it. A comment may extend to the end of the text.
"""

import re
from collections.abc import Callable, Iterable
from functools import partial
from operator import contains, ge, gt, le, lt
from typing import Final

from lark import Lark, Token, Transformer, UnexpectedCharacters, UnexpectedToken, v_args

from mocketmq.broker.filters import sql_expressions as sql
from mocketmq.broker.filters.sql_expressions import Expression, ExpressionError

_GRAMMAR: Final = r"""
start: or_expression
?or_expression: and_expression ("OR"i and_expression)*
?and_expression: equality ("AND"i equality)*
?equality: comparison
    | equality "=" comparison -> equal
    | equality "<>" comparison -> not_equal
    | equality "IS"i NULL -> is_null
    | equality "IS"i "NOT"i NULL -> is_not_null
?comparison: unary
    | comparison ">" unary -> greater
    | comparison ">=" unary -> greater_or_equal
    | comparison "<" unary -> less
    | comparison "<=" unary -> less_or_equal
    | comparison "BETWEEN"i unary "AND"i unary -> between
    | comparison "NOT"i "BETWEEN"i unary "AND"i unary -> not_between
    | comparison "IN"i _list -> one_of
    | comparison "NOT"i "IN"i _list -> not_one_of
    | comparison _having STRING -> having
    | comparison "NOT"i _having STRING -> not_having
_list: "(" STRING ("," STRING)* RIGHT
_having: CONTAINS | STARTSWITH | ENDSWITH
?unary: primary
    | "+" unary
    | MINUS unary -> negative
    | NOT unary -> negated
?primary: STRING -> text
    | DECIMAL -> whole
    | FLOAT -> floating
    | (TRUE | FALSE | NULL) -> boolean
    | ID -> property_named
    | "(" or_expression ")"

CONTAINS: "CONTAINS"i
STARTSWITH: "STARTSWITH"i
ENDSWITH: "ENDSWITH"i
TRUE: "TRUE"i
FALSE: "FALSE"i
NULL: "NULL"i
NOT: "NOT"i
MINUS: "-"
RIGHT: ")"
STRING: /'(''|[^'])*'/
FLOAT.2: /[0-9]+\.[0-9]*(e[+-]?[0-9]+)?|\.[0-9]+(e[+-]?[0-9]+)?|[0-9]+e[+-]?[0-9]+/i
DECIMAL: /0|[1-9][0-9]*l?/i
ID: /[a-z_$][a-z0-9_$]*/i

SPACE: /[ \t\n\r\f]+/
LINE_COMMENT.2: /--[^\n\r]*/
BLOCK_COMMENT.2: /\/\*[^*]*\*(\*|[^*\/][^*]*\*)*\//
%ignore SPACE
%ignore LINE_COMMENT
%ignore BLOCK_COMMENT
"""

_WORDS: Final = {
    "STRING": "'text'",
    "DECIMAL": "a number",
    "FLOAT": "a number",
    "ID": "a property",
    "EQUAL": "=",
    "__ANON_0": "<>",
    "MORETHAN": ">",
    "__ANON_1": ">=",
    "LESSTHAN": "<",
    "__ANON_2": "<=",
    "LPAR": "(",
    "RIGHT": ")",
    "COMMA": "a comma",
    "PLUS": "+",
    "MINUS": "-",
    "$END": "the end",
}
"""Names of the terminals in error messages."""


def parse(text: str) -> Expression:
    """Parse the text into an expression that is true, false or null for a message. Raises ExpressionError."""
    try:
        return _PARSER.parse(text)  # type: ignore[return-value]
    except UnexpectedToken as error:
        is_end = error.token.type == "$END"
        found = "the expression ends too early" if is_end else f"{_shown(error.token)} is not expected here"
        start = len(text) if is_end else _start(error.token)
        raise ExpressionError(start, f"{found}; expected: {_listed(error.accepts)}") from None
    except UnexpectedCharacters as error:
        start = error.pos_in_stream or 0
        raise ExpressionError(start, _strange(text, start)) from None


def _listed(terminals: Iterable[str]) -> str:
    words = sorted({_WORDS.get(name, name) for name in terminals}, key=lambda word: (word.isupper(), word))
    return ", ".join(words)


def _strange(text: str, start: int) -> str:
    if text[start] == "'":
        return "the text that begins here has no closing quote"
    if text.startswith("/*", start):
        return "the comment that begins here is not closed"
    hints = {'"': "; put text in 'single quotes'", "!": "; write <> for unequal"}
    return f"{text[start]!r} is not part of SQL92{hints.get(text[start], '')}"


def _shown(token: Token) -> str:
    return str(token) if len(token) <= 40 else f"{token[:39]}…"


def _end(token: Token) -> int:
    return int(token.end_pos or 0)


def _start(token: Token) -> int:
    return int(token.start_pos or 0)


def _text(token: Token) -> str:
    return token[1:-1].replace("''", "'")


_TESTS: Final[dict[str, Callable[[str, str], bool]]] = {
    "CONTAINS": contains,
    "STARTSWITH": str.startswith,
    "ENDSWITH": str.endswith,
}


_BOOLEANS: Final[dict[str, bool | None]] = {"TRUE": True, "FALSE": False, "NULL": None}


@v_args(inline=True)
class _Builder(Transformer[Token, Expression]):
    """Builds expressions from the parsed text, bottom up."""

    start = staticmethod(sql.as_boolean)
    equal = staticmethod(sql.equal)
    not_equal = staticmethod(sql.not_equal)
    greater = staticmethod(partial(sql.ordered, holds=gt))
    greater_or_equal = staticmethod(partial(sql.ordered, holds=ge))
    less = staticmethod(partial(sql.ordered, holds=lt))
    less_or_equal = staticmethod(partial(sql.ordered, holds=le))
    between = staticmethod(sql.between)
    not_between = staticmethod(sql.not_between)

    def or_expression(self, *operands: Expression) -> Expression:
        return sql.any_of(operands)

    def and_expression(self, *operands: Expression) -> Expression:
        return sql.all_of(operands)

    def is_null(self, left: Expression, null: Token) -> Expression:
        return sql.is_null(left, _end(null))

    def is_not_null(self, left: Expression, null: Token) -> Expression:
        return sql.is_not_null(left, _end(null))

    def one_of(self, left: Expression, *rest: Token) -> Expression:
        return sql.one_of(left, [_text(token) for token in rest[:-1]], _end(rest[-1]), is_not=False)

    def not_one_of(self, left: Expression, *rest: Token) -> Expression:
        return sql.one_of(left, [_text(token) for token in rest[:-1]], _end(rest[-1]), is_not=True)

    def having(self, left: Expression, test: Token, search: Token) -> Expression:
        return sql.having(left, _text(search), _end(search), _TESTS[test.type], is_not=False)

    def not_having(self, left: Expression, test: Token, search: Token) -> Expression:
        return sql.having(left, _text(search), _end(search), _TESTS[test.type], is_not=True)

    def negative(self, sign: Token, operand: Expression) -> Expression:
        return sql.negative(_start(sign), operand)

    def negated(self, word: Token, operand: Expression) -> Expression:
        return sql.negated(_start(word), operand)

    def text(self, token: Token) -> Expression:
        return sql.text(_start(token), _end(token), _text(token))

    def whole(self, token: Token) -> Expression:
        return sql.whole(_start(token), _end(token), token.rstrip("lL"))

    def floating(self, token: Token) -> Expression:
        return sql.floating(_start(token), _end(token), str(token))

    def boolean(self, token: Token) -> Expression:
        return sql.boolean(_start(token), _end(token), _BOOLEANS[token.type])

    def property_named(self, token: Token) -> Expression:
        return sql.property_named(_start(token), _end(token), str(token))


_PARSER: Final = Lark(_GRAMMAR, parser="lalr", lexer="basic", transformer=_Builder(), g_regex_flags=re.ASCII)
