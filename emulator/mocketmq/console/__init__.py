"""Serves the console, the web page at ``/`` of the HTTP port, which uses only the JSON API.

The files beside this module are served unchanged, and each is read at its first request. Requests for these
files need no token, because the files contain no data of the broker. The page asks the user for the token,
and sends it with each API request.
"""

from typing import Final, NamedTuple

from mocketmq.http_api import web
from mocketmq.http_api.listener import UNMATCHED, RoutedResponse
from mocketmq.http_api.problem import problem_response
from mocketmq.http_api.router import MethodNotAllowedError, NoSuchPathError

SEGMENTS: Final = ("", "console")
"""First segments of the console's paths ``/`` and ``/console/…``."""

_TYPES: Final = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "json": "application/json",
    "svg": "image/svg+xml",
}
_HEADERS: Final = {
    "Cache-Control": "no-cache",  # the browser revalidates by ETag each time
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self';"
    " img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class _File(NamedTuple):
    content: bytes
    media_type: str
    etag: str


class Console:
    """Serves the files of the page."""

    def __init__(self) -> None:
        self._files: dict[str, _File] = {}

    async def answer(self, request: web.BaseRequest) -> RoutedResponse:
        """Respond with the file, or with 304 if the browser's copy is current."""
        path = request.rel_url.raw_path
        name = "index.html" if path == "/" else path.removeprefix("/console/")
        file = self._file(name)
        if file is None:
            return RoutedResponse(
                UNMATCHED, problem_response(NoSuchPathError("the console has no such file"))
            )
        template = "/" if path == "/" else "/console/{file}"
        if request.method not in ("GET", "HEAD"):
            return RoutedResponse(
                template, problem_response(MethodNotAllowedError(request.method, path, ["GET", "HEAD"]))
            )
        headers = _HEADERS | {"ETag": file.etag, "Content-Type": file.media_type}
        if file.etag in request.headers.get("If-None-Match", ""):
            return RoutedResponse(template, web.Response(status=304, headers=headers))
        return RoutedResponse(template, web.Response(body=file.content, headers=headers))

    def _file(self, name: str) -> _File | None:
        if name not in self._files:
            # Loaded late, because most brokers never serve the console.
            import hashlib  # noqa: PLC0415
            from importlib.resources import files  # noqa: PLC0415

            stem, _, kind = name.rpartition(".")
            found = files(__package__).joinpath(name)
            if not stem.isidentifier() or kind not in _TYPES or not found.is_file():
                return None
            content = found.read_bytes()
            etag = f'"{hashlib.sha256(content).hexdigest()[:16]}"'
            self._files[name] = _File(content, _TYPES[kind], etag)
        return self._files[name]
