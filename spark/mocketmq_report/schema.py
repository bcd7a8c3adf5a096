"""Makes the JSON schema of a document, for programs that read the document.

After a change of ``mocketmq_report.document``, run ``python -m mocketmq_report.schema >
docs/report.schema.json``; ``lab/schema.py`` makes the schema of a lab. The document's docstrings, and the
comments after its fields, are the descriptions.
"""

import inspect
import re
import sys
from types import ModuleType
from typing import Any, Final, NamedTuple

import msgspec

from mocketmq_report import document

_FIELD: Final = re.compile(r"^    (\w+): .*?  # (.*)$", re.MULTILINE)


class PublishedDocument(NamedTuple):
    """A published document: its title, its module, and the type of the whole."""

    title: str
    module: ModuleType
    root: type[msgspec.Struct]

    @property
    def version(self) -> str:
        return str(self.module.SCHEMA_VERSION)


REPORT: Final = PublishedDocument("Lateness report of mocketmq", document, document.Report)


def schema(published: PublishedDocument = REPORT) -> dict[str, Any]:
    """Make the schema, as JSON Schema draft 2020-12."""
    made = msgspec.json.schema(published.root)
    for name, definition in made["$defs"].items():
        found = getattr(published.module, name, None) or getattr(document, name)
        for field, meaning in _FIELD.findall(inspect.getsource(found)):
            definition["properties"][field]["description"] = meaning
    root = made["$defs"][published.root.__name__]
    root["required"].insert(0, "schema_version")
    root["properties"]["schema_version"] = {
        "type": "string",
        "pattern": rf"^{published.version.partition('.')[0]}\.[0-9]+$",
    }
    versions = (
        f"Version {published.version}. The second number rises when fields are added or may be null, so"
        " readers ignore fields that they do not know; the first rises when fields change or go."
    )
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": published.title,
        "description": f"{inspect.getdoc(published.module)}\n\n{versions}",
        **made,
    }


def text(published: PublishedDocument = REPORT) -> str:
    """Return the content of the schema's file."""
    return msgspec.json.format(msgspec.json.encode(schema(published)), indent=2).decode() + "\n"


if __name__ == "__main__":
    sys.stdout.write(text())
