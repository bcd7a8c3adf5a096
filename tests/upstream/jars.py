"""The real broker's jars, from Maven Central."""

import re
import shutil
import subprocess
from pathlib import Path

FOLDER = Path(__file__).parent
BUILD_S = 600.0

_LIB = FOLDER / "target" / "lib"
_BUILT = FOLDER / "target" / "built"
_POM = FOLDER / "pom.xml"


class JarsMissingError(Exception):
    """There is no Java or no Maven here, or Maven failed."""


def version() -> str:
    """Which RocketMQ the project pins."""
    found = re.search(r"-broker</artifactId>\s*<version>(\S+)</version>", _POM.read_text())
    assert found
    return found[1]


def class_path() -> str:
    """All jars, which are fetched first, unless that has been done. Raises JarsMissingError."""
    maven = shutil.which("mvn")
    if maven is None or shutil.which("java") is None:
        raise JarsMissingError("needs Java and Maven")
    if not _BUILT.exists() or _BUILT.stat().st_mtime < _POM.stat().st_mtime:
        shutil.rmtree(_LIB, ignore_errors=True)  # jars of another version
        done = subprocess.run(
            [maven, "--batch-mode", "--quiet", "dependency:copy-dependencies"],
            check=False,
            cwd=FOLDER,
            timeout=BUILD_S,
            text=True,
            capture_output=True,
        )
        if done.returncode:
            raise JarsMissingError(f"Maven failed:\n{done.stdout}{done.stderr}")
        _BUILT.touch()
    return str(_LIB / "*")
