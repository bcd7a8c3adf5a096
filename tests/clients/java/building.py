"""Projects of Java: built by Maven, all of a folder at once, and run by Java."""

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
    """Build the projects of a folder, unless that has been done."""
    maven = shutil.which("mvn")
    if maven is None or shutil.which("java") is None:
        pytest.skip("needs Java and Maven")
    built, poms = folder / "target" / "built", list(folder.glob("*/pom.xml"))
    made_of = [folder / "pom.xml", *poms, *folder.glob("src/*/*.java"), *FOLDER.glob("src/driver/*.java")]
    if built.exists() and built.stat().st_mtime > max(path.stat().st_mtime for path in made_of):
        return
    for pom in poms:
        shutil.rmtree(pom.with_name("target"), ignore_errors=True)  # jars of other versions
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
    """How to run a class with a client, whose logs and offsets go into ``home``."""
    return project_command(FOLDER / PROJECTS[client], home)


def patient(program: str) -> str:
    """A program whose first send may take longer than the client's three seconds: few for a cold JVM."""
    for found, patiently in _TIMEOUTS:
        program = found.sub(patiently, program)
    return program


def project_command(project: Path, home: Path, *more: Path) -> tuple[str, ...]:
    """How to run a class of a project, with ``more`` on the class path; logs and offsets go into ``home``."""
    target = project / "target"
    classes = os.pathsep.join(map(str, (target / "classes", target / "lib" / "*", *more)))
    return "java", "-XX:TieredStopAtLevel=1", f"-Duser.home={home}", "-cp", classes
