"""Calls of the JSON API, which the operations are made of."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from urllib.parse import quote

from mocketmq.client.answer import JsonObject


class ApiCalls(ABC):
    """Sends a request and returns the JSON object of its answer. Raises BrokerError, UnreachableError."""

    @abstractmethod
    async def _call(self, method: str, path: str, body: object = None) -> JsonObject: ...

    @abstractmethod
    async def _get(self, path: str, query: Mapping[str, object] | None = None) -> JsonObject: ...


def api_path(*segments: str) -> str:
    """A path of the API."""
    return "/v1/" + "/".join(quote(segment, safe="") for segment in segments)


def entries_of(answer: JsonObject, name: str) -> list[JsonObject]:
    """The list of objects in an answer."""
    found: list[JsonObject] = answer[name]
    return found
