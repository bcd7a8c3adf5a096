"""Make the JSON schema of ``report.json``, the contract with its readers: ``docs/report.schema.json``.

After a change of ``mocketmq_report.document``, run ``python -m mocketmq_report.schema >
docs/report.schema.json``. Descriptions are the docstrings there, and the comments after fields.
"""

import inspect
import re
import sys
from typing import Any, Final

import msgspec

from mocketmq_report import document
from mocketmq_report.document import SCHEMA_VERSION, Report

_FIELD: Final = re.compile(r"^    (\w+): .*?  # (.*)$", re.MULTILINE)

_VERSIONS: Final = (
    f"Version {SCHEMA_VERSION}. The second number rises when fields are added or may be null, so readers"
    " ignore fields that they do not know; the first rises when fields change or go."
)


def schema() -> dict[str, Any]:
    """The schema, as JSON Schema draft 2020-12."""
    made = msgspec.json.schema(Report)
    for name, definition in made["$defs"].items():
        for field, meaning in _FIELD.findall(inspect.getsource(getattr(document, name))):
            definition["properties"][field]["description"] = meaning
    report = made["$defs"]["Report"]
    report["required"].insert(0, "schema_version")
    report["properties"]["schema_version"] = {
        "type": "string",
        "pattern": rf"^{SCHEMA_VERSION.partition('.')[0]}\.[0-9]+$",
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Lateness report of mocketmq",
        "description": f"{inspect.getdoc(document)}\n\n{_VERSIONS}",
        **made,
    }


def text() -> str:
    """The content of the file."""
    return msgspec.json.format(msgspec.json.encode(schema()), indent=2).decode() + "\n"


if __name__ == "__main__":
    sys.stdout.write(text())
