"""Requests that unmodified clients sent; see README.md."""

import ast
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

FILES = {path.stem: path for path in sorted(Path(__file__).parent.glob("*.txt"))}
"""The recorded requests, by client."""


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
    return [Recorded(*ast.literal_eval(line)) for line in FILES[client].read_text("utf-8").splitlines()]
