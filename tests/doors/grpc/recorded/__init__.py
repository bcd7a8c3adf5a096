"""Requests that unmodified clients sent; see README.md."""

import ast
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

FILES = {path.stem: path for path in sorted(Path(__file__).parent.glob("*.txt"))}
"""The recorded requests, by client."""

LITE_FILES = {path.stem: path for path in sorted((Path(__file__).parent / "lite").glob("*.txt"))}
"""Requests of producers and consumers of lite topics, by client, as a real proxy of 5.5.0 got them."""

PRIORITY_FILES = {path.stem: path for path in sorted((Path(__file__).parent / "priorities").glob("*.txt"))}
"""Requests of producers and consumers of priority messages, by client, likewise; with all their sends."""


class Recorded(NamedTuple):
    """A message, the name of its type, and the headers of its request."""

    kind: str
    headers: Mapping[str, str]
    data: bytes

    @property
    def rpc(self) -> str:
        """The name of the RPC."""
        return "Telemetry" if self.kind == "TelemetryCommand" else self.kind.removesuffix("Request")


def requests(client: str) -> list[Recorded]:
    """Return the requests that the client sent."""
    return _read(FILES[client])


def lite_requests(client: str) -> list[Recorded]:
    """Return the requests about lite topics that the client sent."""
    return _read(LITE_FILES[client])


def priority_requests(client: str) -> list[Recorded]:
    """Return the requests about priority messages that the client sent."""
    return _read(PRIORITY_FILES[client])


def _read(path: Path) -> list[Recorded]:
    return [Recorded(*ast.literal_eval(line)) for line in path.read_text("utf-8").splitlines()]
