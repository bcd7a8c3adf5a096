"""The command line, run in this process."""

from inspect import signature
from typing import Any

from click.testing import CliRunner


def runner(**env: str | None) -> CliRunner:
    """Keeps what is printed on stdout and stderr apart, which click before 8.2 does only when told."""
    apart: dict[str, Any] = {"mix_stderr": False} if "mix_stderr" in signature(CliRunner).parameters else {}
    return CliRunner(env=env, **apart)
