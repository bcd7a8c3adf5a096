"""Bases of the images, in place of those of a registry: Debian with its Python, and its Java alone."""

import shutil
from pathlib import Path
from typing import Final

from tests.kits.engines import KEPT
from tests.kits.test_roots import debian, inside, run

_JAVA_HOME: Final = "/opt/java/openjdk"
"""Where Temurin's image has Java."""


def python_base(architecture: str = "") -> Path:
    """Return the archive of a root with Python 3.13, its headers and pip."""
    name = f"python-{architecture}" if architecture else "python"
    # A pip that Debian has no part in.
    command = ("python3", "-m", "venv", "/usr/local")
    return _archive(name, ("libpython3.13-dev", "python3-venv"), architecture, command)


def java_base() -> Path:
    """Return the archive of a root with a Java that needs no other file of Debian."""
    copy = f"mkdir -p {_JAVA_HOME} && cp -rL /usr/lib/jvm/java-21-openjdk-*/* {_JAVA_HOME}"
    return _archive("java", ("openjdk-21-jre-headless",), "", ("sh", "-c", copy))


def _archive(name: str, packages: tuple[str, ...], architecture: str, prepare: tuple[str, ...]) -> Path:
    archive = KEPT / f"{name}.tar"
    if not archive.exists():
        folder = KEPT / name
        shutil.rmtree(folder, ignore_errors=True)
        run("cp", "--archive", str(debian(packages, architecture)), str(folder))
        run(*inside(folder), *prepare)
        unfinished = archive.with_suffix(".unfinished")
        run("tar", "--create", "--file", str(unfinished), "--directory", str(folder), ".")
        shutil.rmtree(folder)
        unfinished.rename(archive)
    return archive
