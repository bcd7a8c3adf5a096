"""The tables of docs/faults.md: made of what applications saw in the last runs, and read by the tests."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.clients import compatibility, features
from tests.clients.faults.applications import CLIENTS
from tests.clients.faults.rules import rows

Seen = dict[str, dict[str, str]]
"""By client and rule, what its application saw."""

ROOT: Final = Path(__file__).parents[3]
PAGE: Final = ROOT / "docs" / "faults.md"
SAVED: Final = ROOT / "build" / "faults.json"

_DOORS: Final = {
    "remoting": "RocketMQ's protocol (remoting)",
    "grpc": "RocketMQ 5's protocol (gRPC)",
    "aliyun": "Aliyun's HTTP protocol",
    "http": "The JSON API",
}
_HEAD: Final = """\
## What applications see

What a send or a consumer of each unmodified client makes of a rule, with the client's defaults. These tables
are made by `make interop`, which fails if a client sees something else, and `python -m tests.clients.faults`;
do not edit them. Of a send they say what it returns or throws, how often the client tried, and how often the
message is stored, unless that is once for a success and never for an error. Of a consumer, what it is told,
and how often it gets the message. Addresses and times are left out.
"""


def page(seen: Seen) -> str:
    """The end of the page."""
    return "\n".join([_HEAD, *(line for door in _DOORS for line in _table(door, seen))])


def _table(door: str, seen: Seen) -> Iterator[str]:
    clients, known = [one for one, tried in CLIENTS.items() if tried.door == door], _versions()
    yield f"### {_DOORS[door]}\n"
    titles = (f"{CLIENTS[one].title} {known.get(one, '')}".strip() for one in clients)
    yield f"| rule | {' | '.join(titles)} |"
    yield f"|---{'|---' * len(clients)}|"
    for rule in rows(door):
        yield f"| `{rule}` | {' | '.join(seen[one].get(rule, '–') for one in clients)} |"
    yield ""


def _versions() -> dict[str, str]:
    aliyun = {f"http-{sdk}": version for sdk, version in compatibility.versions().items()}
    return {**features.versions(), **aliyun}


def documented() -> Seen:
    """What the page says that applications see."""
    seen: Seen = {client: {} for client in CLIENTS}
    titles = {title: door for door, title in _DOORS.items()}
    for section in PAGE.read_text("utf-8").partition(_HEAD)[2].split("### ")[1:]:
        title, *lines = section.splitlines()
        clients = [one for one, tried in CLIENTS.items() if tried.door == titles[title]]
        for line in lines:
            rule, *cells = re.split(r" (?<!\\)\| ", line.removeprefix("| ").removesuffix(" |"))
            if rule.startswith("`"):
                for client, cell in zip(clients, cells, strict=True):
                    seen[client][rule.strip("`")] = cell
    return seen


def save(seen: Seen) -> None:
    """Keep what was seen, beside what other clients saw in earlier runs."""
    SAVED.parent.mkdir(exist_ok=True)
    SAVED.write_text(json.dumps(saved() | seen))


def saved() -> Seen:
    """What was seen in the last runs."""
    found: Seen = json.loads(SAVED.read_text()) if SAVED.exists() else {}
    return found


def write() -> str | None:
    """Write the tables. Returns how to get what is missing, if anything."""
    seen = saved()
    if missing := [
        client for client in CLIENTS if seen.get(client, {}).keys() != set(rows(CLIENTS[client].door))
    ]:
        return f"nothing is known of {', '.join(missing)}: make interop ARGS=tests/clients/faults"
    rest = PAGE.read_text("utf-8").partition(_HEAD.partition("\n")[0])[0]
    PAGE.write_text(f"{rest.rstrip()}\n\n{page(seen)}".rstrip() + "\n", "utf-8")
    return None
