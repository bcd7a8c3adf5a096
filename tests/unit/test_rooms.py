"""The rooms of docs/architecture.md: each knows those below it and none above."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("compat", "emulator", "migrations", "spark")

ROOMS = {
    "ground": {
        *("emulator", "emulator.clock", "emulator.duration", "emulator.errors", "emulator.failpoint"),
        *("emulator.message", "emulator.settings"),
    },
    "access": {"emulator.access"},
    "store": {"emulator.store", "migrations"},
    "schedule": {"emulator.schedule"},
    "broker": {"emulator.broker"},
    "http": {f"emulator.http_api.{name}" for name in ("door", "fields", "invalid", "problem", "request")},
    "json": {"emulator.http_api"},  # the rest of it
    "remoting": {"emulator.remoting"},
    "compat": {"compat"},
    "client": {"emulator.client"},
    "demo": {"emulator.demo"},
    "spark": {"spark"},
    "app": {"emulator.app"},
    "cli": {"emulator.cli", "emulator.__main__"},
}
"""A room holds these modules, and those below them that no other room names."""

KNOWS = {
    "ground": "",
    "access": "ground",
    "store": "ground",
    "schedule": "ground store",
    "broker": "ground store schedule",
    "http": "ground store schedule broker",
    "json": "ground store schedule broker http",
    "remoting": "ground access store schedule broker",
    "compat": "ground access store schedule broker http",
    "client": "ground",
    "demo": "ground schedule client",
    "spark": "ground store schedule broker http compat",
    "app": "ground access store schedule broker http json remoting compat",
    "cli": "ground access store schedule broker http json remoting compat client demo spark app",
}

MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for package in PACKAGES
    for path in sorted((ROOT / package).rglob("*.py"))
}


def room_of(module: str) -> str:
    """The room that the module is in."""
    name = module
    while name:
        for room, modules in ROOMS.items():
            if name in modules and (name == module or name != "emulator"):
                return room
        name = name.rpartition(".")[0]
    raise LookupError(f"{module} is in no room: add it to ROOMS, and to docs/architecture.md")


def imports(source: str) -> Iterator[str]:
    """Every module of ours that is imported, wherever in the source that stands."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.module and not node.level, "relative imports are not looked through"
            members = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [member if member in MODULES else node.module for member in members]
        else:
            continue
        yield from (name for name in names if name.partition(".")[0] in PACKAGES)


def strangers(module: str, source: str) -> list[str]:
    """What the module imports from rooms that its own does not know."""
    room = room_of(module)
    known = {room, *KNOWS[room].split()}
    return [name for name in imports(source) if room_of(name) not in known]


@pytest.mark.parametrize("module", MODULES)
def test_a_module_knows_only_the_rooms_below_its_own(module: str) -> None:
    assert strangers(module, MODULES[module].read_text()) == []


def test_every_room_has_modules_and_none_knows_one_that_knows_it() -> None:
    assert set(map(room_of, MODULES)) == set(ROOMS) == set(KNOWS)
    above: set[str] = set(ROOMS)
    for room, below in KNOWS.items():  # written from the ground up
        above.remove(room)
        assert not above & set(below.split()), room


@pytest.mark.parametrize(
    ("module", "source", "found"),
    [
        ("emulator.clock", "import emulator.store.writer as w", ["emulator.store.writer"]),
        ("emulator.broker.broker", "def f():\n    from compat import delayed_file", ["compat.delayed_file"]),
        ("emulator.broker.broker", "from compat.delayed_file import Entry", ["compat.delayed_file"]),
        ("emulator.http_api.server", "if TYPE_CHECKING:\n    import compat", ["compat"]),
        ("emulator.http_api.door", "from emulator.http_api import server", ["emulator.http_api.server"]),
        ("emulator.remoting.server", "import emulator.http_api.door", ["emulator.http_api.door"]),
        ("compat.dongwo", "from emulator.http_api.route import Route", ["emulator.http_api.route"]),
        ("compat.dongwo", "import emulator.app, emulator.errors", ["emulator.app"]),
        ("emulator.app", "import compat.dongwo, aiohttp, emulator", []),
        ("emulator.cli.serve", "import compat.dongwo, emulator.app", []),
    ],
)
def test_a_wrong_import_is_found_wherever_it_stands(module: str, source: str, found: list[str]) -> None:
    assert strangers(module, source) == found


def test_a_new_module_has_to_be_given_a_room() -> None:
    with pytest.raises(LookupError, match=r"emulator\.nowhere\.else is in no room"):
        room_of("emulator.nowhere.else")
