"""Finds the endpoint of a request by method and path, segment by segment."""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final, Generic, NamedTuple, TypeVar
from urllib.parse import unquote

from mocketmq.http_api.problem import HttpError
from mocketmq.suggestion import suggestion_for

Endpoint = TypeVar("Endpoint")

_KNOWN: Final = 256
"""Number of paths that a router remembers, because most requests name the same few topics and groups."""
_SHORT: Final = 512
"""Maximum length of a path that a router remembers."""


class NoSuchPathError(HttpError):
    """No route has this path."""

    status = 404


class MethodNotAllowedError(HttpError):
    """The path exists, but not with this method."""

    status = 405

    def __init__(self, method: str, path: str, allowed: Iterable[str]) -> None:
        self.allowed = ", ".join(sorted(allowed))
        super().__init__(f"{path} does not accept {method}; allowed: {self.allowed}")
        self.headers = {"Allow": self.allowed}


class Match(NamedTuple, Generic[Endpoint]):
    """An endpoint, with the decoded value of each ``{name}`` in its path."""

    endpoint: Endpoint
    parameters: Mapping[str, str]


class _Node(Generic[Endpoint]):
    __slots__ = ("endpoints", "literals", "name", "path", "variable")

    def __init__(self, path: str = "", name: str = "") -> None:
        self.path = path
        self.name = name
        self.literals: dict[str, _Node[Endpoint]] = {}
        self.variable: _Node[Endpoint] | None = None
        self.endpoints: dict[str, Endpoint] = {}


class Router(Generic[Endpoint]):
    """Endpoints by method and path. If a literal segment matches, ``{name}`` is not tried."""

    def __init__(self) -> None:
        self._root: _Node[Endpoint] = _Node()
        self._paths: set[str] = set()
        self._find_short = lru_cache(_KNOWN)(self._find)

    def add_route(self, method: str, path: str, endpoint: Endpoint) -> None:
        """Add an endpoint for a method and a path. Segments of the path are literal or ``{name}``."""
        node = self._root
        for segment in path.split("/")[1:]:
            below = f"{node.path}/{segment}"
            if segment.startswith("{"):
                node.variable = node.variable or _Node(below, segment[1:-1])
                node = node.variable
            else:
                node = node.literals.setdefault(segment, _Node(below))
        node.endpoints[method] = endpoint
        self._paths.add(path)
        self._find_short.cache_clear()

    def find_endpoint(self, method: str, raw_path: str) -> Match[Endpoint]:
        """Find the endpoint of a request. Raises NoSuchPathError, MethodNotAllowedError.

        The path is split before it is decoded, so ``%2F`` does not separate segments.
        """
        find = self._find_short if len(raw_path) <= _SHORT else self._find
        return find(method, raw_path)

    def _find(self, method: str, raw_path: str) -> Match[Endpoint]:
        node = self._root
        parameters: dict[str, str] = {}
        for raw in raw_path.split("/")[1:]:
            segment = unquote(raw) if "%" in raw else raw
            below = node.literals.get(segment)
            if below is None:
                below = node.variable
                if below is None:
                    raise self._no_such_path(raw_path)
                parameters[below.name] = segment
            node = below
        endpoint = node.endpoints.get(method)
        if endpoint is None:
            if not node.endpoints:
                raise self._no_such_path(raw_path)
            raise MethodNotAllowedError(method, node.path, node.endpoints)
        return Match(endpoint, parameters)

    def _no_such_path(self, raw_path: str) -> NoSuchPathError:
        meant = suggestion_for(raw_path, self._paths)
        guess = f"did you mean {meant}? " if meant else ""
        return NoSuchPathError(f"no such path; {guess}/docs lists all")
