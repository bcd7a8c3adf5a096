"""Which frameworks are tested: those that the projects of this folder pin."""

import re
from pathlib import Path

FOLDER = Path(__file__).parent
PROJECTS = {
    "spring-boot-2": "spring",
    "spring-boot-3": "spring",
    "stream": "stream",
    "camel": "camel",
}
"""The frameworks, as ``features`` calls them and their projects, and the package of the application."""

_VERSION = re.compile(r"<tested>(\S+)</tested>")


def versions() -> dict[str, str]:
    """The version of each framework's part for RocketMQ."""
    found = {}
    for project in PROJECTS:
        [found[project]] = _VERSION.findall((FOLDER / project / "pom.xml").read_text())
    return found
