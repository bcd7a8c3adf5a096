"""The JSON schema of the settings file, for editors: made from the rules and types that read the file."""

from inspect import cleandoc
from typing import Any, Final

import msgspec

from mocketmq.http_api.faults import FaultIn
from mocketmq.http_api.seeds import SeedMessage, SeedProgress
from mocketmq.settings import BrokerDeclaration, Declaration, GroupDeclaration, Settings, TopicDeclaration
from mocketmq.settings_sources import schema_of

_REFERENCE: Final = "#/$defs/{name}"
_DECLARED: Final[dict[str, type[Declaration]]] = {
    "topics": TopicDeclaration,
    "groups": GroupDeclaration,
    "brokers": BrokerDeclaration,
}
_CHECKED: Final = {"faults": FaultIn, "messages": SeedMessage, "progress": SeedProgress}


def settings_schema() -> dict[str, Any]:
    """The schema, in JSON Schema 2020-12."""
    properties: dict[str, Any] = dict(schema_of(Settings))
    for name, declared in _DECLARED.items():
        table = {
            "type": "object",
            "description": cleandoc(declared.__doc__ or ""),
            "properties": schema_of(declared),
            "required": ["name"],
            "additionalProperties": False,
        }
        tables = {"type": "array", "items": table}
        properties[name] = {"anyOf": [properties[name], tables]} if name in properties else tables
    _, definitions = msgspec.json.schema_components(_CHECKED.values(), ref_template=_REFERENCE)
    for name, kind in _CHECKED.items():
        definitions[kind.__name__] |= getattr(kind, "more_schema", {})
        properties[name] = {"type": "array", "items": {"$ref": _REFERENCE.format(name=kind.__name__)}}
    for definition in definitions.values():
        if "description" in definition:
            definition["description"] = cleandoc(definition["description"])
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Settings of mocketmq",
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
        "$defs": definitions,
    }
