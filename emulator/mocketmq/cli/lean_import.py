"""Imports the modules of a command in as little time and memory as possible."""

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Final

_CERTIFICATES: Final = ("SSL_CERT_FILE", "SSL_CERT_DIR")
"""Variables that name the system's certificates (OpenSSL's ``SSL_CTX_set_default_verify_paths``)."""


def lean_import(module: str, *, serves: bool) -> ModuleType:
    """Import a module. ``serves`` says that the process never connects to a server by aiohttp.

    When aiohttp is imported, it reads all of the system's certificates for its client, which takes 30 ms and
    2 MB. A server's process does without them.
    """
    gc.disable()  # collections during imports would take a twentieth of the start time
    try:
        if not serves:
            return import_module(module)
        with _no_certificates():
            return import_module(module)
    finally:
        gc.enable()


@contextmanager
def _no_certificates() -> Iterator[None]:
    """Let OpenSSL find no certificates for a while."""
    before = {name: os.environ.get(name) for name in _CERTIFICATES}
    os.environ.update(dict.fromkeys(_CERTIFICATES, os.devnull))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
