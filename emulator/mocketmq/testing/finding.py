"""Finds the broker's program for tests, or on request installs it once into a separate environment."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from mocketmq.testing.process import StartError

_HELP: Final = (
    "put the command mocketmq on the PATH (`pipx install mocketmq`, or .venv/bin in a checkout after"
    " `make setup`), set mocketmq_command, mocketmq_install or mocketmq_image in pytest's settings,"
    " or give the address of a running broker with --mocketmq-url"
)
_PORTS: Final = ("http", "namesrv", "broker", "grpc")
_PYTHONS: Final = ("python3", "python", *(f"python3.{minor}" for minor in range(14, 10, -1)))
"""Commands that may run Python 3.11 or later, which the broker needs but the tests do not."""


def find_program(install: Sequence[str], image: str) -> list[str]:
    """Return the command line of ``mocketmq`` without a subcommand. Raises StartError.

    ``install`` has arguments of ``pip install`` for a separate environment; ``image`` is a container image.
    Without either, the search covers the bundle that MOCKETMQ_BUNDLE names, this environment and the PATH.
    Nothing is downloaded without a request, because a test run should not execute whatever a package index
    offers under a name.
    """
    if image:
        return _container(image)
    if install:
        return _installed(install)
    if bundle := os.environ.get("MOCKETMQ_BUNDLE"):
        return [str(_program_of_bundle(Path(bundle)))]
    try:
        from mocketmq.own_command import own_command  # noqa: PLC0415 - absent without the broker
    except ImportError:
        program = shutil.which("mocketmq")
        if program is None:
            raise StartError(f"no mocketmq broker was found: {_HELP}") from None
        return [program]
    return own_command()


def _container(image: str) -> list[str]:
    engine = shutil.which("docker") or shutil.which("podman")
    if engine is None:
        raise StartError(f"mocketmq_image is {image!r}, but neither docker nor podman is on the PATH")
    ports = [part for name in _PORTS for part in ("-p", f"127.0.0.1:{{{name}_port}}:{{{name}_port}}")]
    return [engine, "run", "--rm", "-i", *ports, image]


def _installed(arguments: Sequence[str]) -> list[str]:
    """Return the command of the environment with these ``pip install`` arguments, making it on first use."""
    folder = _cache() / f"python-{_digest(arguments)}"
    python = folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    is_made = folder / "is-made"
    if not is_made.exists():
        with _lock(folder.with_suffix(".lock")):
            if not is_made.exists():
                _make(folder, python, arguments)
                is_made.touch()
    return [str(python), "-P", "-m", "mocketmq"]


def _make(folder: Path, python: Path, arguments: Sequence[str]) -> None:
    shutil.rmtree(folder, ignore_errors=True)  # an interrupted installation may have left it
    if uv := shutil.which("uv"):  # uv also downloads Python if necessary
        _run(uv, "venv", "--quiet", "--python", ">=3.11", str(folder))
        _run(uv, "pip", "install", "--quiet", "--python", str(python), *arguments)
    else:
        _run(_new_python(), "-m", "venv", str(folder))
        _run(str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *arguments)


def _new_python() -> str:
    check = "import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))"
    for name in (sys.executable, *_PYTHONS):
        found = shutil.which(name)
        if found and not subprocess.run([found, "-c", check], capture_output=True).returncode:  # noqa: PLW1510,S603
            return found
    raise StartError(f"mocketmq_install needs uv or Python 3.11, and neither is on the PATH: {_HELP}")


def _run(*command: str) -> None:
    environment = {
        name: text for name, text in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")
    }
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)  # noqa: S603
    if done.returncode:
        ran = f"{' '.join(command)}\n{done.stderr}"
        raise StartError(f"the installation that mocketmq_install asks for failed: {_HELP}\n{ran}")


def _program_of_bundle(bundle: Path) -> Path:
    if not bundle.exists():
        raise StartError(f"MOCKETMQ_BUNDLE is {str(bundle)!r}, which does not exist")
    folder = bundle if bundle.is_dir() else _unpacked(bundle)
    for inside in (folder, *sorted(folder.iterdir())):  # an archive has the program in its only folder
        program = inside / ("mocketmq.exe" if sys.platform == "win32" else "mocketmq")
        if program.is_file():
            return program
    raise StartError(
        f"MOCKETMQ_BUNDLE is {str(bundle)!r}, which has no program mocketmq: name the folder that has it, or"
        " the archive"
    )


def _unpacked(archive: Path) -> Path:
    """Return the folder of the unpacked archive, in the user's cache. Unpacks it once."""
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    folder = _cache() / f"bundle-{digest[:16]}"
    with _lock(folder.with_suffix(".lock")):
        if not folder.exists():
            own = tempfile.mkdtemp(prefix="unpacking-", dir=folder.parent)
            safe: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
            try:
                shutil.unpack_archive(str(archive), own, **safe)
            except (OSError, ValueError, shutil.ReadError, tarfile.TarError) as error:
                shutil.rmtree(own)
                raise StartError(
                    f"MOCKETMQ_BUNDLE is {str(archive)!r}, which cannot be unpacked: {error}"
                ) from None
            Path(own).rename(folder)
    return folder


def _digest(arguments: Sequence[str]) -> str:
    """Return a digest of the installed packages, which changes when a local file is rebuilt."""
    found = hashlib.sha256()
    for argument in arguments:
        path = Path(argument)
        files = sorted(path.glob("*.whl")) if path.is_dir() else [path] if path.is_file() else []
        facts = [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in files]
        found.update(repr((argument, str(path.resolve()) if files else "", facts)).encode())
    return found.hexdigest()[:16]


def _cache() -> Path:
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or tempfile.gettempdir()
    elif sys.platform == "darwin":
        base = str(Path.home() / "Library/Caches")
    else:
        base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    folder = Path(base) / "mocketmq"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    """Let only one process at a time enter, because pytest-xdist's workers start together."""
    with path.open("w") as file:
        try:
            import fcntl  # noqa: PLC0415 - absent on Windows
        except ImportError:
            pass
        else:
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
