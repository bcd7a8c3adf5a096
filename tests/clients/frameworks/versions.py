"""The tested frameworks: the versions pinned by the projects of this folder."""

import re
from pathlib import Path

FOLDER = Path(__file__).parent
PROJECTS = {
    "spring-boot-2": "spring",
    "spring-boot-3": "spring",
    "stream": "stream",
    "camel": "camel",
}
"""Framework names as in ``features``, with their projects and the package of the application."""

_VERSION = re.compile(r"<tested>(\S+)</tested>")


def versions() -> dict[str, str]:
    """Return the version of each framework's RocketMQ integration."""
    found = {}
    for project in PROJECTS:
        [found[project]] = _VERSION.findall((FOLDER / project / "pom.xml").read_text())
    return found
