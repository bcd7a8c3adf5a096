"""Jars of real brokers, from Maven Central."""

import shutil
import subprocess
from pathlib import Path

FOLDER = Path(__file__).parent
BUILD_S = 600.0

V4, V5, V5_5 = "4.9.7", "5.3.3", "5.5.0"
"""Versions that mocketmq is compared with. Maven Central has only the client of 4.9.8; 4.9.7 differs
from it in access control and in the settings that may be changed at run time, and in nothing else here."""
VERSIONS_5 = (V5, V5_5)
"""Those of RocketMQ 5, which have pops, timers and a proxy."""


class JarsMissingError(Exception):
    """Java or Maven is missing, or Maven failed."""


def class_path(version: str) -> str:
    """Return all jars of a version of RocketMQ. Raises JarsMissingError."""
    return fetched(FOLDER, "rocketmq", version)


def fetched(folder: Path, product: str, version: str) -> str:
    """Return all jars that the folder's pom.xml requires, after fetching them if necessary.

    Raises JarsMissingError.
    """
    maven = shutil.which("mvn")
    if maven is None or shutil.which("java") is None:
        raise JarsMissingError("needs Java and Maven")
    target = folder / "target" / version
    built = target / "built"
    if not built.exists() or built.stat().st_mtime < (folder / "pom.xml").stat().st_mtime:
        shutil.rmtree(target, ignore_errors=True)
        done = subprocess.run(
            [maven, "--batch-mode", "--quiet", "dependency:copy-dependencies", f"-D{product}={version}"],
            check=False,
            cwd=folder,
            timeout=BUILD_S,
            text=True,
            capture_output=True,
        )
        if done.returncode:
            raise JarsMissingError(f"Maven failed:\n{done.stdout}{done.stderr}")
        built.touch()
    return str(target / "lib" / "*")
