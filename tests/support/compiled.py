"""Tests over the compiled modules: ``pytest -p tests.support.compiled``, as ``make test-compiled`` has it.

The run ends at once if one of them is not compiled. Tests marked `interpreted` are left out.
"""

import importlib
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CODEC = "mocketmq.codec"
"""The module that a release has in C."""


def compiled_modules() -> dict[str, Path]:
    """Return the names and the files, relative to the tree, of the modules that the build hook compiles."""
    spec = spec_from_file_location("compiled_hook", ROOT / "kits/compiled/hook.py")
    assert spec
    assert spec.loader
    hook = module_from_spec(spec)
    spec.loader.exec_module(hook)
    modules: dict[str, Path] = hook.modules(ROOT)
    return modules


def pytest_configure() -> None:
    """Import every module that should be compiled. Ends the run if one is not."""
    names = [*compiled_modules(), CODEC]
    files = {name: str(importlib.import_module(name).__file__) for name in names}
    if found := {name: file for name, file in files.items() if not file.endswith(tuple(EXTENSION_SUFFIXES))}:
        pytest.exit(f"not compiled: {found}", pytest.ExitCode.USAGE_ERROR)


def pytest_report_header() -> str:
    """Say what the tests run over."""
    return f"{len(compiled_modules())} modules compiled by mypyc, and the codec"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out tests that replace parts of compiled classes or functions, which mypyc does not allow."""
    left_out = [item for item in items if item.get_closest_marker("interpreted")]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]
