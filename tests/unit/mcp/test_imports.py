"""Only ``mocketmq mcp`` imports what its extra brings, so nothing else needs the extra."""

import ast
from collections.abc import Iterator

from tests.unit.test_rooms import MODULES

EXTRA = {"mcp", "mcp_types", "pydantic", "anyio", "starlette"}


def imported(module: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(MODULES[module].read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def test_only_the_room_of_tools_imports_the_extra() -> None:
    users = {module for module in MODULES if EXTRA & {name.partition(".")[0] for name in imported(module)}}
    assert users == {f"mocketmq.mcp.{name}" for name in ("arguments", "server")}


def test_only_the_command_imports_the_room_of_tools() -> None:
    users = {
        module for module in MODULES if any(name.startswith("mocketmq.mcp") for name in imported(module))
    }
    assert {module for module in users if not module.startswith("mocketmq.mcp")} == {"mocketmq.cli.mcp"}
