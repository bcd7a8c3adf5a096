"""The rooms of docs/architecture.md: a room may import rooms below it, and none above."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = {
    "mocketmq": ROOT / "emulator",
    "mocketmq_compat": ROOT / "compat",
    "mocketmq_migrations": ROOT / "migrations",
    "mocketmq_report": ROOT / "spark",
}
"""Directory of each package."""

ROOMS = {
    "base": {
        "mocketmq",
        "mocketmq.clock",
        "mocketmq.codec",
        "mocketmq.columns",
        "mocketmq.compiled",
        "mocketmq.delay_limits",
        "mocketmq.door_tap",
        "mocketmq.duration",
        "mocketmq.errors",
        "mocketmq.event_loop",
        "mocketmq.failpoint",
        "mocketmq.histogram",
        "mocketmq.hosts",
        "mocketmq.instant",
        "mocketmq.invisible_time",
        "mocketmq.json_path",
        "mocketmq.message",
        "mocketmq.open_ports",
        "mocketmq.own_command",
        "mocketmq.port_listener",
        "mocketmq.rocketmq_family",
        "mocketmq.rocketmq_versions",
        "mocketmq.seed_file",
        "mocketmq.setting_rules",
        "mocketmq.settings",
        "mocketmq.settings_file",
        "mocketmq.settings_sources",
        "mocketmq.suggestion",
        "mocketmq.text_positions",
    },
    "access": {"mocketmq.access"},
    "store": {"mocketmq.store", "mocketmq_migrations"},
    "faults": {"mocketmq.faults"},
    "schedule": {"mocketmq.schedule"},
    "delay": {"mocketmq_compat.delay"},
    # Inside the broker
    "filters": {"mocketmq.broker.filters"},
    "registry": {"mocketmq.broker.registry"},
    "sending": {"mocketmq.broker.sending"},
    "consuming": {"mocketmq.broker.consuming"},
    "seeding": {"mocketmq.broker.seeding"},
    "lite": {"mocketmq.broker.lite"},
    "life": {"mocketmq.broker.life", "mocketmq.broker.message_records"},
    "inspection": {"mocketmq.broker.inspection"},
    "verification": {"mocketmq.broker.verification"},
    "watching": {"mocketmq.broker.watching"},
    "transactions": {"mocketmq.broker.transactions"},
    "removal": {"mocketmq.broker.removal"},
    "snapshots": {"mocketmq.broker.snapshots"},
    "packs": {"mocketmq.broker.packs"},
    "broker": {"mocketmq.broker"},  # combines the other rooms
    # Below the protocols
    "connections": {"mocketmq.connections"},
    # Inside remoting
    "wire": {"mocketmq.remoting.wire"},
    "remoting": {"mocketmq.remoting"},  # serves every request
    "requests": {"mocketmq.remoting.requests"},
    "listening": {"mocketmq.remoting.listening"},
    # The client side of remoting
    "calling": {"mocketmq.calling"},
    # The other protocols
    "protobuf": {f"mocketmq.grpc_proxy.{name}" for name in ("definitions", "messages")},
    "grpc": {"mocketmq.grpc_proxy"},  # the rest of it
    "http": {
        f"mocketmq.http_api.{name}"
        for name in (
            *(
                "answers",
                "bodies",
                "fields",
                "fault_injection",
                "invalid",
                "json_response",
                "listener",
                "page_guard",
            ),
            *("problem", "request", "web"),
        )
    },
    "json": {"mocketmq.http_api"},  # the rest of it
    "console": {"mocketmq.console"},
    "discovery": {"mocketmq_compat", "mocketmq_compat.address_discovery"},
    "signed": {"mocketmq_compat.aliyun_http.signed_text"},
    "aliyun": {"mocketmq_compat.aliyun_http"},  # the rest of it
    # Next to the protocols
    "client": {"mocketmq.client"},
    "testing": {"mocketmq.testing"},
    "mcp": {"mocketmq.mcp"},
    "probe": {"mocketmq.probe"},
    "demo": {"mocketmq.demo"},
    "lab": {"mocketmq.lab"},
    "relay": {"mocketmq.relay"},
    "recording": {"mocketmq.recording"},
    # Lateness reports
    "document": {
        f"mocketmq_report.{name}" for name in ("document", "figures", "jvm", "on_time", "progress", "schema")
    },
    "ledger": {"mocketmq_report.ledger"},
    "compute": {"mocketmq_report.compute"},
    "judge": {"mocketmq_report.judge"},
    "report": {"mocketmq_report.report"},
    "live": {"mocketmq_report.live"},
    "questions": {"mocketmq_report.questions"},
    "lab-report": {"mocketmq_report.lab"},
    "spark": {"mocketmq_report"},  # the rest of it
    "otlp": {"mocketmq.otlp"},
    # On top
    "app": {
        f"mocketmq.{name}" for name in ("app", "front_doors", "ready_file", "settings_schema", "watchdog")
    },
    "cli": {"mocketmq.cli", "mocketmq.__main__"},
}
"""Modules of each room, including submodules that no other room names. Rooms may be nested."""

BROKER = (
    "filters registry sending consuming seeding lite life inspection verification watching transactions"
    " removal snapshots packs broker"
)

KNOWS = {
    "base": "",
    "access": "base",
    "store": "base",
    "faults": "base store",
    "schedule": "base store faults",
    "filters": "base",
    "registry": "base access store filters",
    "delay": "base store schedule",
    "sending": "base store schedule registry",
    "consuming": "base store schedule filters registry",
    "seeding": "base store schedule registry sending consuming",
    "lite": "base store schedule registry consuming",
    "life": "base store schedule registry consuming",
    "inspection": "base store schedule registry sending consuming life",
    "verification": "base store schedule registry consuming lite life",
    "watching": "base store schedule registry consuming life verification",
    "transactions": "base store schedule filters registry sending consuming",
    "removal": "base store faults schedule registry consuming lite",
    "snapshots": "base store faults schedule registry consuming lite transactions removal",
    "packs": "base store snapshots",
    "broker": f"base access store faults schedule {BROKER}",
    "connections": "base store",
    "wire": "base",
    "remoting": f"base access store faults {BROKER} wire",
    "requests": f"base access store schedule {BROKER} wire remoting",
    "listening": f"base access store faults {BROKER} connections wire remoting requests",
    "calling": "base wire",
    "protobuf": "base",
    "grpc": f"base access store schedule faults {BROKER} connections protobuf",
    "http": "base faults connections",
    "json": f"base access faults schedule {BROKER} http",
    "console": "base http json",
    "discovery": "base http",
    "signed": "",
    "aliyun": f"base access faults {BROKER} http signed",
    "client": "base",
    "testing": "base client",
    "mcp": "base faults client",
    "probe": "base schedule wire calling protobuf signed",
    "demo": "base schedule client",
    "document": "base",
    "ledger": "base store delay document",
    "compute": "base document ledger",
    "judge": "base document",
    "report": "base document judge",
    "live": "base store schedule delay document ledger compute",
    "questions": "base store document ledger",
    "spark": "base document ledger compute judge report live",
    "otlp": f"base store schedule {BROKER} http json",
    "relay": "base store delay wire calling",
    "recording": "base store registry sending wire calling protobuf client relay",
    "app": (
        f"base access store schedule delay {BROKER} connections listening grpc http json console"
        " discovery aliyun otlp recording"
    ),
    "lab": f"base schedule delay {BROKER} wire calling client probe app",
    "lab-report": "base document judge report spark lab",
    "cli": (
        "base store faults delay packs calling client probe demo document ledger judge spark app lab relay"
        " recording lab-report mcp questions"
    ),
}

MODULES = {
    ".".join(path.relative_to(source).with_suffix("").parts).removesuffix(".__init__"): path
    for package, source in SOURCES.items()
    for path in sorted((source / package).rglob("*.py"))
}


def room_of(module: str) -> str:
    """Return the room of the module."""
    name = module
    while name:
        for room, modules in ROOMS.items():
            if name in modules and (name == module or name != "mocketmq"):
                return room
        name = name.rpartition(".")[0]
    raise LookupError(f"{module} is in no room: add it to ROOMS, and to docs/architecture.md")


def imports(source: str) -> Iterator[str]:
    """Yield every module of ours that the source imports, also inside functions."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.module and not node.level, "relative imports are not looked through"
            members = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [member if member in MODULES else node.module for member in members]
        else:
            continue
        yield from (name for name in names if name.partition(".")[0] in SOURCES)


def strangers(module: str, source: str) -> list[str]:
    """Return the module's imports from rooms that its own room must not import."""
    room = room_of(module)
    known = {room, *KNOWS[room].split()}
    return [name for name in imports(source) if room_of(name) not in known]


FACE = "mocketmq"
"""Module that imports its names on first use, as test_public_face checks."""


@pytest.mark.parametrize("module", sorted(MODULES.keys() - {FACE}))
def test_modules_import_only_rooms_below_their_own(module: str) -> None:
    assert strangers(module, MODULES[module].read_text()) == []


def test_rooms_are_not_empty_and_do_not_depend_on_each_other_in_cycles() -> None:
    assert set(map(room_of, MODULES)) == set(ROOMS) == set(KNOWS)
    above: set[str] = set(ROOMS)
    for room, below in KNOWS.items():  # listed from the base up, so no cycle is possible
        assert not above & set(below.split()) - {room}, room
        above.remove(room)


@pytest.mark.parametrize(
    ("module", "source", "found"),
    [
        ("mocketmq.clock", "import mocketmq.store.writer as w", ["mocketmq.store.writer"]),
        (
            "mocketmq.broker.broker",
            "def f():\n    from mocketmq_compat.delay import delayed_file",
            ["mocketmq_compat.delay.delayed_file"],
        ),
        (
            "mocketmq.broker.broker",
            "from mocketmq_compat.delay.delayed_file import Entry",
            ["mocketmq_compat.delay.delayed_file"],
        ),
        (
            "mocketmq.broker.registry.topics",
            "from mocketmq.broker.consuming import pull",
            ["mocketmq.broker.consuming.pull"],
        ),
        (
            "mocketmq.broker.sending.sender",
            "if TYPE_CHECKING:\n    from mocketmq.broker.broker import Broker",
            ["mocketmq.broker.broker"],
        ),
        (
            "mocketmq.broker.transactions.half_messages",
            "from mocketmq.broker.sending.intake import Intake",
            [],
        ),
        (
            "mocketmq.remoting.wire.frame",
            "from mocketmq.remoting.channel import Channel",
            ["mocketmq.remoting.channel"],
        ),
        ("mocketmq.http_api.server", "if TYPE_CHECKING:\n    import mocketmq_compat", ["mocketmq_compat"]),
        ("mocketmq.http_api.listener", "from mocketmq.http_api import server", ["mocketmq.http_api.server"]),
        (
            "mocketmq.remoting.listening.server",
            "import mocketmq.http_api.listener",
            ["mocketmq.http_api.listener"],
        ),
        (
            "mocketmq_compat.delay",
            "from mocketmq.http_api.route import Route",
            ["mocketmq.http_api.route"],
        ),
        ("mocketmq_compat.delay", "import mocketmq.app, mocketmq.errors", ["mocketmq.app"]),
        (
            "mocketmq_compat.delay.directories.directory_store",
            "from mocketmq.broker.registry.topics import Topics",
            ["mocketmq.broker.registry.topics"],
        ),
        ("mocketmq.app", "import mocketmq_compat.delay, aiohttp, mocketmq", []),
        ("mocketmq.cli.serve", "import mocketmq_compat.delay, mocketmq.app", []),
    ],
)
def test_wrong_import_is_found_anywhere_in_a_module(module: str, source: str, found: list[str]) -> None:
    assert strangers(module, source) == found


def test_module_without_a_room_is_found() -> None:
    with pytest.raises(LookupError, match=r"mocketmq\.nowhere\.else is in no room"):
        room_of("mocketmq.nowhere.else")
