"""Make the JSON schema of a document, the contract with its readers.

After a change of ``mocketmq_report.document``, run ``python -m mocketmq_report.schema >
docs/report.schema.json``; ``lab/schema.py`` makes that of a lab. Descriptions are the docstrings there, and
the comments after fields.
"""

import inspect
import re
import sys
from types import ModuleType
from typing import Any, Final, NamedTuple

import msgspec

from mocketmq_report import document

_FIELD: Final = re.compile(r"^    (\w+): .*?  # (.*)$", re.MULTILINE)


class Contract(NamedTuple):
    """A document that is published: its title, its module, and the type of the whole."""

    title: str
    module: ModuleType
    root: type[msgspec.Struct]

    @property
    def version(self) -> str:
        """The version of the document."""
        return str(self.module.SCHEMA_VERSION)


REPORT: Final = Contract("Lateness report of mocketmq", document, document.Report)


def schema(contract: Contract = REPORT) -> dict[str, Any]:
    """The schema, as JSON Schema draft 2020-12."""
    made = msgspec.json.schema(contract.root)
    for name, definition in made["$defs"].items():
        found = getattr(contract.module, name, None) or getattr(document, name)
        for field, meaning in _FIELD.findall(inspect.getsource(found)):
            definition["properties"][field]["description"] = meaning
    root = made["$defs"][contract.root.__name__]
    root["required"].insert(0, "schema_version")
    root["properties"]["schema_version"] = {
        "type": "string",
        "pattern": rf"^{contract.version.partition('.')[0]}\.[0-9]+$",
    }
    versions = (
        f"Version {contract.version}. The second number rises when fields are added or may be null, so"
        " readers ignore fields that they do not know; the first rises when fields change or go."
    )
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": contract.title,
        "description": f"{inspect.getdoc(contract.module)}\n\n{versions}",
        **made,
    }


def text(contract: Contract = REPORT) -> str:
    """The content of the file."""
    return msgspec.json.format(msgspec.json.encode(schema(contract)), indent=2).decode() + "\n"


if __name__ == "__main__":
    sys.stdout.write(text())
