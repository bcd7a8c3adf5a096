"""The tables of docs/faults.md, which are made from the last runs and read by the tests."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.clients import compatibility, features
from tests.clients.faults.applications import CLIENTS
from tests.clients.faults.rules import rows

Seen = dict[str, dict[str, str]]
"""What each client's application saw, by client and rule."""

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

What applications see when a rule fires, with unmodified clients and the clients' defaults. `make interop`
checks these tables, and `python -m tests.clients.faults` writes them; do not edit them. For a send, they
show what it returns or throws, how often the client tried, and how often the broker stored the message,
unless that is once after a success or never after an error. For a consumer, they show its errors, and how
often it got the message. Addresses and times are left out.
"""


def page(seen: Seen) -> str:
    """Return the end of the page."""
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
    """Return the results on the page."""
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
    """Save the results next to earlier results of other clients."""
    SAVED.parent.mkdir(exist_ok=True)
    SAVED.write_text(json.dumps(saved() | seen))


def saved() -> Seen:
    """Return the results of the last runs."""
    found: Seen = json.loads(SAVED.read_text()) if SAVED.exists() else {}
    return found


def write() -> str | None:
    """Write the tables. Returns instructions to get missing results, if any."""
    seen = saved()
    if missing := [
        client for client in CLIENTS if seen.get(client, {}).keys() != set(rows(CLIENTS[client].door))
    ]:
        return f"nothing is known of {', '.join(missing)}: make interop ARGS=tests/clients/faults"
    rest = PAGE.read_text("utf-8").partition(_HEAD.partition("\n")[0])[0]
    PAGE.write_text(f"{rest.rstrip()}\n\n{page(seen)}".rstrip() + "\n", "utf-8")
    return None
