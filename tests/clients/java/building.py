"""Builds a folder of Java projects in one Maven run, and runs them."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.clients.java.versions import FOLDER, PROJECTS

BUILD_S = 1_800.0
_TIMEOUTS = (
    (re.compile(r"(\w+) = new DefaultMQProducer\(.*\);"), r"\g<0> \1.setSendMsgTimeout(60_000);"),
    (
        re.compile(r"(\w+) = new Properties\(\);"),
        r'\g<0> \1.setProperty(PropertyKeyConst.SendMsgTimeoutMillis, "60000");',
    ),
)


def build(folder: Path = FOLDER) -> None:
    """Build the projects of a folder unless they are already built."""
    maven = shutil.which("mvn")
    if maven is None or shutil.which("java") is None:
        pytest.skip("needs Java and Maven")
    built, poms = folder / "target" / "built", list(folder.glob("*/pom.xml"))
    made_of = [folder / "pom.xml", *poms, *folder.glob("src/*/*.java"), *FOLDER.glob("src/driver/*.java")]
    if built.exists() and built.stat().st_mtime > max(path.stat().st_mtime for path in made_of):
        return
    for pom in poms:
        shutil.rmtree(pom.with_name("target"), ignore_errors=True)  # removes jars of other versions
    done = subprocess.run(
        [maven, "--batch-mode", "--quiet", "compiler:compile", "dependency:copy-dependencies"],
        check=False,
        cwd=folder,
        timeout=BUILD_S,
        text=True,
        capture_output=True,
    )
    if done.returncode:
        pytest.fail(f"Maven failed:\n{done.stdout}{done.stderr}")
    built.parent.mkdir(exist_ok=True)
    built.touch()


def java_command(client: str, home: Path) -> tuple[str, ...]:
    """Return the command that runs a class with a client, which keeps logs and offsets in ``home``."""
    return project_command(FOLDER / PROJECTS[client], home)


def patient(program: str) -> str:
    """Run a program whose first send may exceed the client's three seconds, as in a cold JVM."""
    for found, patiently in _TIMEOUTS:
        program = found.sub(patiently, program)
    return program


def project_command(project: Path, home: Path, *more: Path) -> tuple[str, ...]:
    """Return the command for a class of a project, with ``more`` on the class path, and ``home`` for logs."""
    target = project / "target"
    classes = os.pathsep.join(map(str, (target / "classes", target / "lib" / "*", *more)))
    return "java", "-XX:TieredStopAtLevel=1", f"-Duser.home={home}", "-cp", classes
