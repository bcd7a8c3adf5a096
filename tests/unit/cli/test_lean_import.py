"""Modules of commands are imported without collections, those of a server without certificates."""

import gc
import os
import sys
from pathlib import Path

import pytest

from mocketmq.cli import lean_import

SEEN = """
import gc, os
seen = gc.isenabled(), os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a module that notes what its import sees."""
    name = f"seen_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(SEEN)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", "mine.pem")
    monkeypatch.delenv("SSL_CERT_DIR", raising=False)
    monkeypatch.delitem(sys.modules, name, raising=False)
    return name


@pytest.mark.parametrize(
    ("serves", "seen"), [(True, (False, os.devnull, os.devnull)), (False, (False, "mine.pem", None))]
)
def test_an_import_leaves_the_process_as_it_was(
    module: str, serves: bool, seen: tuple[bool, str | None, str | None]
) -> None:
    assert lean_import(module, serves=serves).seen == seen
    assert gc.isenabled()
    assert (os.environ["SSL_CERT_FILE"], os.environ.get("SSL_CERT_DIR")) == ("mine.pem", None)


def test_a_failed_import_leaves_the_process_as_it_was(module: str) -> None:
    with pytest.raises(ModuleNotFoundError):
        lean_import(f"{module}.none", serves=True)
    assert gc.isenabled()
    assert (os.environ["SSL_CERT_FILE"], os.environ.get("SSL_CERT_DIR")) == ("mine.pem", None)
