"""Maven projects that have copied a recipe, and use the kit's artefacts from the local repository."""

import shutil
from pathlib import Path

from tests.clients.recipes.pages import KITS, run, write

JAVA_PROJECTS = {
    "junit5": "junit5",
    "kotlin": "junit5",
    "spring-boot": "junit5",
    "spring-cloud-stream": "spring-cloud-stream",
    "camel": "camel",
}
"""Folders with a ``pom.xml`` here, and the pages from which the projects copy their files."""
_KIT_MODULES = "mocketmq-testcontainers,mocketmq-spring-boot"
"""Modules that depend on all others except the bundle, because recipes find ``mocketmq`` on the path."""


def install_java_kit() -> None:
    """Install the kit's modules in Maven's local repository."""
    maven = ("mvn", "--batch-mode", "--quiet", "install", "-DskipTests")
    run(*maven, "-pl", _KIT_MODULES, "-am", cwd=KITS / "java")


def write_java_project(project: str, into: Path) -> None:
    """Write the project's ``pom.xml`` and the files of its page."""
    shutil.copy(Path(__file__).parent / project / "pom.xml", into)
    write(JAVA_PROJECTS[project], into)
