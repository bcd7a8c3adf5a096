"""Rules for the modules that mypyc compiles, checked in their sources.

mypyc 2.4 keeps the exception that is being handled per thread, where Python keeps one per coroutine. So of
two compiled coroutines that waited in `except`, one raised the other's exception, and the other never ended.

It also reduces the types of fields to their classes: `int | None` becomes `type`, and a limit is lost. It
drops the keywords of a class, so that a struct with `rename` or `dict=True` becomes another one. A
`cached_property` is computed each time, and objects have no `__dict__`.
"""

import ast
import re
import textwrap
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.support.compiled import compiled_modules

ROOT = Path(__file__).parents[2]
PLAIN_TYPES = {"bool", "bytes", "int", "str"}
"""Types that are classes, and stay what they are."""
ENDS_AT_ONCE = ("asyncio.timeout(", "asyncio.timeout_at(")
"""Context managers whose exit is a coroutine that never waits. Locks are others."""


@cache
def trees() -> dict[Path, ast.Module]:
    """Return the parsed modules by their files, relative to the tree."""
    files = [file for folder in ("compat", "emulator") for file in (ROOT / folder).rglob("*.py")]
    return {file.relative_to(ROOT): ast.parse(file.read_text("utf-8")) for file in files}


def lock_names(*trees: ast.Module) -> set[str]:
    """Return the names of attributes that are an `asyncio.Lock` wherever these modules assign them."""
    locks, others = set[str](), set[str]()
    for node in (node for tree in trees for node in ast.walk(tree)):
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.annotation) == "asyncio.Lock":
            locks.add(ast.unparse(node.target))
        elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = {each.attr for each in targets if isinstance(each, ast.Attribute)}
            is_lock = isinstance(node.value, ast.Call) and ast.unparse(node.value) == "asyncio.Lock()"
            (locks if is_lock else others).update(names)
    return locks - others


class WaitsWhileHandling(ast.NodeVisitor):
    """Collects the lines at which code may be suspended while it handles an exception."""

    def __init__(self, locks: set[str]) -> None:
        self.found: list[tuple[int, str]] = []
        self._locks = locks
        self._is_handling = False

    def _visit_all(self, nodes: Iterable[ast.AST], *, is_handling: bool) -> None:
        outside, self._is_handling = self._is_handling, is_handling
        for node in nodes:
            self.visit(node)
        self._is_handling = outside

    def _visit_scope(self, node: ast.AST) -> None:
        self._visit_all(ast.iter_child_nodes(node), is_handling=False)

    def _visit_try(self, node: ast.Try | ast.TryStar) -> None:
        self._visit_all([*node.body, *node.orelse], is_handling=self._is_handling)
        self._visit_all([*node.handlers, *node.finalbody], is_handling=True)

    def _visit_wait(self, node: ast.expr | ast.stmt) -> None:
        if self._is_handling:
            self.found.append((node.lineno, "waits in `except` or `finally`"))
        self.generic_visit(node)

    def visit_AsyncWith(self, node: ast.AsyncWith) -> None:
        for item in node.items:
            manager = item.context_expr
            is_lock = isinstance(manager, ast.Attribute) and manager.attr in self._locks
            if not is_lock and not ast.unparse(manager).startswith(ENDS_AT_ONCE):
                self.found.append((node.lineno, f"the exit of `{ast.unparse(manager)}` may wait"))
        self._visit_wait(node)

    visit_AsyncFunctionDef = visit_FunctionDef = visit_Lambda = _visit_scope  # noqa: N815
    visit_Try = visit_TryStar = _visit_try  # noqa: N815
    visit_AsyncFor = visit_Await = visit_Yield = visit_YieldFrom = _visit_wait  # noqa: N815


def decoded_classes(*trees: ast.Module) -> set[str]:
    """Return the names of all classes that msgspec reads: arguments of `Decoder`, `convert` and `decode`."""
    found = set[str]()
    for node in (node for tree in trees for node in ast.walk(tree)):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and ast.unparse(node.func).startswith("msgspec.")
        ):
            types = [*node.args, *(keyword.value for keyword in node.keywords)]
            found.update(each.id for one in types for each in ast.walk(one) if isinstance(each, ast.Name))
    return found


def declared_types(tree: ast.Module) -> Iterator[tuple[ast.ClassDef, set[str]]]:
    """Yield each class with the types of its fields."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            fields = [each for each in node.body if isinstance(each, ast.AnnAssign)]
            yield node, {ast.unparse(field.annotation) for field in fields}


def waits(tree: ast.Module, public_locks: set[str]) -> list[tuple[int, str]]:
    """Return the line and the reason of each wait that mypyc would compile wrongly."""
    private_locks = {name for name in lock_names(tree) if name.startswith("_")}
    visitor = WaitsWhileHandling(public_locks | private_locks)
    visitor.visit(tree)
    return visitor.found


def waits_of(body: str) -> list[tuple[int, str]]:
    """Return the waits in the body of a coroutine, whose first line is 2."""
    function = f"async def act(self):\n{textwrap.indent(body, '    ')}\nself._lock = asyncio.Lock()"
    return waits(ast.parse(function), set())


def test_no_compiled_module_waits_while_it_handles_an_exception() -> None:
    locks = {name for name in lock_names(*trees().values()) if not name.startswith("_")}
    found = [
        f"{file}:{line}: {reason}"
        for file in compiled_modules().values()
        for line, reason in waits(trees()[file], locks)
    ]
    assert not found, "mend it, or name the module under `interpreted` in kits/compiled/modules.toml"


def test_no_compiled_module_has_classes_whose_types_are_read() -> None:
    decoded = decoded_classes(*trees().values())
    assert {"JsonHeader", "TopicConfig", "Parked"} <= decoded
    found = [
        f"{file}:{node.lineno}: {node.name}"
        for file in compiled_modules().values()
        for node, types in declared_types(trees()[file])
        if types - PLAIN_TYPES and (node.name in decoded or node.name.endswith("Header"))
    ]
    assert not found, "declare it in a module that stays Python"


def test_no_compiled_dataclass_has_types_in_quotes() -> None:
    found = [
        f"{file}:{node.lineno}: {node.name}"
        for file in compiled_modules().values()
        for node, types in declared_types(trees()[file])
        if node.decorator_list and any(each.startswith("'") for each in types)
    ]
    assert not found, "mypyc looks for the type when the module is imported"


NEVER_NATIVE = {"NamedTuple", "Protocol", "Exception"}
"""Base classes of classes that mypyc leaves to Python, apart from structs."""


def native_classes() -> set[tuple[str, str]]:
    """Return the modules and the names of the classes that mypyc makes native."""
    return {
        (module, node.name)
        for module, file in compiled_modules().items()
        for node in ast.walk(trees()[file])
        if isinstance(node, ast.ClassDef)
        and not any(re.search("Struct|Error", each) or each in NEVER_NATIVE for each in bases_of(node))
    }


def bases_of(node: ast.ClassDef) -> list[str]:
    """Return the base classes as they are written."""
    return [ast.unparse(base) for base in node.bases]


def test_no_interpreted_class_inherits_from_a_compiled_one() -> None:
    native, compiled = native_classes(), {*compiled_modules().values()}
    assert ("mocketmq.broker.sending.sender", "PlainSends") in native
    found = []
    for file, tree in trees().items():
        if file in compiled:
            continue
        imported = {
            alias.asname or alias.name: (node.module or "", alias.name)
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        found += [
            f"{file}:{node.lineno}: {node.name}"
            for node in ast.walk(tree)
            if isinstance(node, ast.ClassDef) and any(imported.get(each) in native for each in bases_of(node))
        ]
    assert not found, "mypyc allows no objects of such a class: name its module in kits/compiled/modules.toml"


def test_no_compiled_class_has_keywords() -> None:
    found = [
        f"{file}:{node.lineno}: {node.name}"
        for file in compiled_modules().values()
        for node in ast.walk(trees()[file])
        if isinstance(node, ast.ClassDef) and node.keywords
    ]
    assert not found, "do without them, or declare it in a module that stays Python"


def test_no_compiled_module_has_cached_properties() -> None:
    found = [
        file for file in compiled_modules().values() if "cached_property" in (ROOT / file).read_text("utf-8")
    ]
    assert not found, "compute it in the constructor, or declare the class in a module that stays Python"


def replaced_in_loops(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the line and the name of each variable that a loop iterates over and assigns."""
    for loop in ast.walk(tree):
        if isinstance(loop, ast.For | ast.AsyncFor) and isinstance(loop.iter, ast.Name):
            for node in (node for statement in loop.body for node in ast.walk(statement)):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id == loop.iter.id:
                    yield node.lineno, node.id


def test_no_compiled_loop_replaces_what_it_iterates_over() -> None:
    found = [
        f"{file}:{line}: {name}"
        for file in compiled_modules().values()
        for line, name in replaced_in_loops(trees()[file])
    ]
    assert not found, "use another variable, because a compiled loop would continue with the new value"


def test_such_a_loop_is_found() -> None:
    source = "for each in found:\n    if each:\n        found = each.others\n    others = found\n"
    assert [*replaced_in_loops(ast.parse(source))] == [(3, "found")]


def test_no_compiled_module_asks_for_the_attributes_of_an_object() -> None:
    found = [
        f"{file}:{number}"
        for file in compiled_modules().values()
        for number, line in enumerate((ROOT / file).read_text("utf-8").splitlines(), 1)
        if re.search(r"\bvars\(|\.__dict__\b", line)
    ]
    assert not found, "name the attributes"


@pytest.mark.parametrize(
    ("body", "line"),
    [
        ("try:\n    pass\nexcept OSError:\n    await undo()", 5),
        ("try:\n    pass\nfinally:\n    if late:\n        return await undo()", 6),
        ("try:\n    pass\nfinally:\n    [await undo(each) async for each in done]", 5),
        ("try:\n    pass\nexcept* OSError:\n    async for each in done:\n        pass", 5),
        ("async with database.exclusively():\n    pass", 2),
        ("async with self._lock, AsyncExitStack() as stack:\n    pass", 2),
        ("try:\n    pass\nexcept OSError:\n    async with self._lock:\n        pass", 5),
        ("try:\n    pass\nexcept OSError:\n    try:\n        await undo()\n    finally:\n        pass", 6),
    ],
)
def test_such_a_wait_is_found(body: str, line: int) -> None:
    assert {found for found, _ in waits_of(body)} == {line}


@pytest.mark.parametrize(
    "body",
    [
        "try:\n    await act()\nexcept OSError:\n    pass\nelse:\n    await act()",
        "async with self._lock, asyncio.timeout(1):\n    await act()",
        "try:\n    pass\nfinally:\n    async def later():\n        await act()\n    self.later = later",
        "async for each in source:\n    await act(each)",
        "with suppress(OSError):\n    await act()",
    ],
)
def test_other_waits_are_allowed(body: str) -> None:
    assert not waits_of(body)


def test_a_generator_must_not_yield_there_either() -> None:
    source = "def watched():\n    try:\n        yield\n    finally:\n        yield 1\n"
    assert [line for line, _ in waits(ast.parse(source), set())] == [5]
