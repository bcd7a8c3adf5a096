"""Builds mocketmq-client from the sources of the emulator, or from the copy of them in an unpacked sdist."""

import re
from pathlib import Path

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

FILES = (
    "__init__.py",
    "client",
    "duration.py",
    "errors.py",
    "instant.py",
    "invisible_time.py",
    "py.typed",
    "testing",
)
"""Files of the package `mocketmq` in this distribution. The emulator's pyproject.toml must exclude them."""


def sources(root: str) -> Path:
    """Return the folder of the package."""
    unpacked = Path(root, "mocketmq")
    return unpacked if unpacked.is_dir() else Path(root).parents[1] / "emulator" / "mocketmq"


class ClientFiles(BuildHookInterface):
    """Adds the files to a build. An editable installation has the emulator's folder on its path instead."""

    def initialize(self, version: str, build_data: dict) -> None:
        if version != "editable":
            folder = sources(self.root)
            build_data["force_include"].update({str(folder / name): f"mocketmq/{name}" for name in FILES})


class ClientVersion(MetadataHookInterface):
    """Sets the version, which is the emulator's."""

    def update(self, metadata: dict) -> None:
        face = (sources(self.root) / "__init__.py").read_text()
        metadata["version"] = re.search('^__version__ = "(.+)"', face, re.MULTILINE)[1]
