"""The tested Java clients: the versions pinned by the projects of this folder."""

import re
from pathlib import Path

FOLDER = Path(__file__).parent
PROJECTS = {
    "java-4.3": "rocketmq-4.3",
    "java-4.9": "rocketmq-4.9",
    "java-5.5": "rocketmq-5.5",
    "ons-java": "ons",
    "http-java": "http",
    "mqadmin-4.9": "admin-4.9",
    "mqadmin-5.5": "admin-5.5",
}
"""Projects of the clients, by name on the compatibility page."""

_CLIENT = re.compile(r"-(?:client|tools|http-sdk)</artifactId>\s*<version>(\S+)</version>")


def versions() -> dict[str, str]:
    """Return the version of each client."""
    found = {}
    for client, project in PROJECTS.items():
        [found[client]] = _CLIENT.findall((FOLDER / project / "pom.xml").read_text())
    return found
