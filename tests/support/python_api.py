"""Generate docs/python-api.md from signatures and docstrings: ``python -m tests.support.python_api``."""

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "python-api.md"
SOURCES = ROOT / "emulator" / "mocketmq"

_INTRODUCTION = """\
# The Python API

All operations of [the clients](python.md) and of the [fixtures](recipes/pytest.md). Those of
`mocketmq.BlockingClient` and of the fixture `mocketmq` are plain calls; those of `mocketmq.Client` and of the
fixture `mocketmq_async` are awaited.

- A `Duration` is a text, such as `"200ms"`, `"1.5s"`, `"30m"` or `"1h30m"`, or a `timedelta`.
- An `Instant` is a `datetime` with a time zone, a text in ISO 8601 with `Z` or an offset, or epoch
  milliseconds.
- A `JsonObject` is a dictionary with the fields of the JSON API, which <http://127.0.0.1:9877/docs>
  describes. Names that end in `_ms` are milliseconds, or instants in epoch milliseconds.
- `wait` is real time; the broker's setting `max_wait`, 30 s by default, limits it. All other durations are on
  the broker's clock.
- An operation raises `BrokerError` if the broker refuses it, with the refusal's `field` and `allowed`;
  `UnreachableError` if no broker answers; `InvalidArgumentError` for an invalid duration or instant. All are
  `EmulatorError`s.

This page is generated from the docstrings by `python -m tests.support.python_api`.
"""
OPERATIONS = (
    ("client/messaging.py", "Messaging"),
    ("client/expecting.py", "Expecting"),
    ("client/registering.py", "Registering"),
    ("client/clustering.py", "Clustering"),
    ("client/operations.py", "Operations"),
)
"""Files and classes of the operations."""
_WIDTH = 120
_LONGEST_SIGNATURE = 100


def page() -> str:
    """Return the text of the page."""
    operations = {name: each for file, of in OPERATIONS for name, each in functions(file, of).items()}
    parts = [_INTRODUCTION, "## Clients\n", *_entry(_class("client/blocking.py", "BlockingClient"))]
    parts += _entry(_class("client/asynchronous.py", "Client"))
    for group, names in _groups():
        parts.append(f"## {group}\n")
        for name in names:
            parts += _entry(operations[name])
    parts.append("## Messages and criteria\n")
    parts += _fields(_class("client/messaging.py", "MessageOptions"))
    parts += _fields(_class("client/expecting.py", "Like"))
    for file, name in (("client/messaging.py", "outgoing"), ("client/answer.py", "body_of")):
        parts += _entry(next(each for each in _tree(file).body if getattr(each, "name", "") == name))
    parts.append("## Fixtures\n\nThe fixture `mocketmq` has the operations above, and:\n")
    parts += _members("broker", "testing/broker.py", "Broker")
    parts += _members("broker.clock", "testing/clock.py", "BlockingClock")
    parts += _members("broker.faults", "testing/faults.py", "BlockingFaults")
    return "\n".join(parts)


def _groups() -> Iterator[tuple[str, list[str]]]:
    """Return BlockingClient's operations in order, grouped under its comments."""
    source = (SOURCES / "client/blocking.py").read_text()
    for title, block in re.findall(r"^    # (.+)\n((?:    \w+ = _blocking\(.*\)\n)+)", source, re.MULTILINE):
        yield title, re.findall(r"^    (\w+) =", block, re.MULTILINE)


def _tree(file: str) -> ast.Module:
    return ast.parse((SOURCES / file).read_text())


def _class(file: str, name: str) -> ast.ClassDef:
    return next(each for each in _tree(file).body if isinstance(each, ast.ClassDef) and each.name == name)


_Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(file: str, name: str) -> dict[str, _Function]:
    """Return the public functions of a class."""
    found = (each for each in _class(file, name).body if isinstance(each, _Function))
    return {each.name: each for each in found if not each.name.startswith("_") or each.name == "__call__"}


def _members(prefix: str, file: str, name: str) -> Iterator[str]:
    for each in functions(file, name).values():
        decorators = {ast.unparse(one) for one in each.decorator_list}
        if "property" in decorators:
            yield f"```python\n{prefix}.{each.name}: {ast.unparse(each.returns)}\n```\n"  # type: ignore[arg-type]
            yield f"{_text(each)}\n"
        else:
            shown = prefix if each.name == "__call__" else f"{prefix}.{each.name}"
            yield from _entry(each, shown)


def _entry(node: ast.stmt, name: str = "") -> Iterator[str]:
    assert isinstance(node, _Function | ast.ClassDef)
    if isinstance(node, ast.ClassDef):
        made = next(
            each for each in node.body if isinstance(each, ast.FunctionDef) and each.name == "__init__"
        )
        signature = _signature(made, f"mocketmq.{node.name}", is_class=True)
    else:
        signature = _signature(node, name or node.name)
    yield f"```python\n{signature}\n```\n"
    yield f"{_text(node)}\n"


def _signature(function: _Function, name: str, *, is_class: bool = False) -> str:
    shown = [part for part in _arguments(function.args) if part != "self"]
    returns = "" if is_class or function.returns is None else f" -> {ast.unparse(function.returns)}"
    line = f"{name}({', '.join(shown)}){returns}"
    if len(line) <= _LONGEST_SIGNATURE:
        return line
    return "\n".join([f"{name}(", *(f"    {part}," for part in shown), f"){returns}"])


def _arguments(given: ast.arguments) -> list[str]:
    positional = [*given.posonlyargs, *given.args]
    defaults = [None] * (len(positional) - len(given.defaults)) + list(given.defaults)
    shown = [_argument(each, default) for each, default in zip(positional, defaults, strict=True)]
    if given.posonlyargs:
        shown.insert(len(given.posonlyargs), "/")
    if given.kwonlyargs:
        shown.append("*")
    shown += [
        _argument(each, default) for each, default in zip(given.kwonlyargs, given.kw_defaults, strict=True)
    ]
    if given.kwarg is not None:
        kind = re.sub(r"Unpack\[(\w+)\]", r"\1", ast.unparse(given.kwarg.annotation))  # type: ignore[arg-type]
        shown.append(f"**{given.kwarg.arg}: {kind}")
    return shown


def _argument(argument: ast.arg, default: ast.expr | None) -> str:
    kind = "" if argument.annotation is None else f": {ast.unparse(argument.annotation)}"
    value = "" if default is None else (" = " if kind else "=") + ast.unparse(default)
    return f"{argument.arg}{kind}{value}".replace("'", '"')


def _fields(node: ast.ClassDef) -> Iterator[str]:
    lines = [ast.unparse(each) for each in node.body if isinstance(each, ast.AnnAssign)]
    yield f"`{node.name}`: {_text(node)}\n"
    yield "\n".join(["```python", *lines, "```\n"])


def _text(node: ast.AST) -> str:
    assert isinstance(node, _Function | ast.ClassDef)
    text = inspect.cleandoc(ast.get_docstring(node) or "")
    text = re.sub(r":\w+:`~?([^`]+)`", r"`\1`", text).replace("``", "`")
    paragraphs = (re.sub(r"\s+", " ", each) for each in text.split("\n\n"))
    return "\n\n".join(textwrap.fill(each, _WIDTH, break_long_words=False) for each in paragraphs)


if __name__ == "__main__":
    PAGE.write_text(page())
