"""The drivers of the Java clients: built by Maven, run by Java."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.clients.java.versions import FOLDER, PROJECTS

BUILD_S = 600.0
_BUILT = FOLDER / "target" / "built"


def build() -> None:
    """Build the drivers, unless that has been done."""
    maven = shutil.which("mvn")
    if maven is None or shutil.which("java") is None:
        pytest.skip("needs Java and Maven")
    made_of = [path for pattern in ("pom.xml", "*/pom.xml", "src/*/*.java") for path in FOLDER.glob(pattern)]
    if _BUILT.exists() and _BUILT.stat().st_mtime > max(path.stat().st_mtime for path in made_of):
        return
    for project in PROJECTS.values():
        shutil.rmtree(FOLDER / project / "target", ignore_errors=True)  # jars of other versions
    done = subprocess.run(
        [maven, "--batch-mode", "--quiet", "compiler:compile", "dependency:copy-dependencies"],
        check=False,
        cwd=FOLDER,
        timeout=BUILD_S,
        text=True,
        capture_output=True,
    )
    if done.returncode:
        pytest.fail(f"Maven failed:\n{done.stdout}{done.stderr}")
    _BUILT.parent.mkdir(exist_ok=True)
    _BUILT.touch()


def java_command(client: str, home: Path) -> tuple[str, ...]:
    """How to run a class with a client, whose logs and offsets go into ``home``."""
    target = FOLDER / PROJECTS[client] / "target"
    classes = f"{target / 'classes'}{os.pathsep}{target / 'lib' / '*'}"
    return "java", "-XX:TieredStopAtLevel=1", f"-Duser.home={home}", "-cp", classes
