"""The names that users import, and the costs of importing them."""

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import mocketmq

FACE = {
    *("__version__", "DEFAULT_URL"),
    *(
        "Client",
        "BlockingClient",
        "MessageOptions",
        "Like",
        "outgoing",
        "body_of",
        "BrokerError",
        "UnreachableError",
    ),
    *("Emulator", "running_emulator", "Settings", "TopicDeclaration", "GroupDeclaration", "load_settings"),
    *("EmulatorError", "InvalidArgumentError", "ListenError", "SettingError"),
    *("StoreError", "StoreLockedError", "StoreUnavailableError", "StoreUnreadableError"),
}
"""Public names, which must stay because removing a name breaks users."""

CLIENT = {
    "client",
    "client.answer",
    "client.api_calls",
    "client.clustering",
    "client.expecting",
    "client.info",
    "client.messaging",
    "client.operations",
    "client.registering",
    "client.seeds",
    "duration",
    "errors",
    "instant",
    "invisible_time",
}

LIBRARIES = {"Client": "aiohttp", "Settings": "msgspec"}
"""What the import of a name may import of others."""

IMPORTED = """
import sys
before = set(sys.modules)
{}
print(*sorted(set(sys.modules) - before))
"""


START = """
import asyncio
from mocketmq import Settings, running_emulator

async def start():
    ports = dict.fromkeys(("http_port", "namesrv_port", "broker_port", "grpc_port"), 0)
    async with running_emulator(Settings(data={!r}, **ports)):
        pass

asyncio.run(start())
"""


def imported_by(statement: str) -> set[str]:
    """Return the modules, except the standard library's, that a fresh interpreter has after the statement."""
    done = subprocess.run(
        [sys.executable, "-c", IMPORTED.format(statement)], stdout=subprocess.PIPE, check=True, text=True
    )
    return {name for name in done.stdout.split() if name.partition(".")[0] not in sys.stdlib_module_names}


def test_public_names_match_the_list() -> None:
    assert set(mocketmq.__all__) == FACE
    assert set(dir(mocketmq)) >= FACE


@pytest.mark.parametrize("name", sorted(FACE))
def test_every_public_name_can_be_imported(name: str) -> None:
    value = getattr(mocketmq, name)
    home = getattr(value, "__module__", None)
    assert home is None or getattr(import_module(home), name) is value


def test_an_unknown_name_raises_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'mocketmq' has no attribute 'Broker'"):
        _ = mocketmq.Broker  # type: ignore[attr-defined]
    with pytest.raises(ImportError, match="cannot import name 'Broker' from 'mocketmq'"):
        exec("from mocketmq import Broker")  # noqa: S102 - to a type checker it is an error


def test_importing_mocketmq_imports_nothing_else() -> None:
    assert imported_by("import mocketmq") == {"mocketmq"}


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("EmulatorError", {"errors"}),
        ("Client", {*CLIENT, "client.asynchronous"}),
        ("BlockingClient", {*CLIENT, "client.blocking"}),
        (
            "Settings",
            {
                *(
                    "codec",
                    "duration",
                    "errors",
                    "invisible_time",
                    "message",
                    "message.broker_share",
                ),
                *(
                    "message.message_types",
                    "message.names",
                    "message.properties",
                    "rocketmq_versions",
                    "setting_rules",
                    "settings",
                    "settings_file",
                ),
            },
        ),
    ],
)
def test_name_imports_only_its_own_modules(name: str, ours: set[str]) -> None:
    modules = imported_by(f"from mocketmq import {name}")
    assert {module for module in modules if module.startswith("mocketmq")} == {
        "mocketmq",
        *(f"mocketmq.{module}" for module in ours),
    }
    tops = {module.partition(".")[0] for module in modules} - {"mocketmq"}
    allowed = imported_by(f"import {LIBRARIES[name]}") if name in LIBRARIES else set()
    assert tops <= {module.partition(".")[0] for module in allowed}


@pytest.mark.parametrize("data", [":memory:", "data"])
def test_a_start_imports_what_every_broker_needs(tmp_path: Path, data: str) -> None:
    """Importing the filter grammar or gRPC, for instance, would add to the start's time and memory."""
    modules = imported_by(START.format(data if data == ":memory:" else str(tmp_path)))
    needed = imported_by("import aiohttp, aiosqlite, msgspec")
    assert {module.partition(".")[0] for module in modules} <= {
        "mocketmq",
        "mocketmq_compat",
        *(module.partition(".")[0] for module in needed),
    }


def test_a_type_checker_sees_the_same_names_in_the_same_places() -> None:
    tree = ast.parse(Path(mocketmq.__file__).read_text())
    [typed] = [each for each in tree.body if isinstance(each, ast.If) and isinstance(each.test, ast.Name)]
    seen = {
        alias.name: imported.module
        for imported in typed.body
        if isinstance(imported, ast.ImportFrom)
        for alias in imported.names
    }
    assert seen.keys() == FACE - {"__version__", "DEFAULT_URL"}
    for name, home in seen.items():
        assert home and getattr(import_module(home), name) is getattr(mocketmq, name)
