"""Turns decoding errors into errors that name the field, its value, and the values that its type allows."""

import re
from typing import Any, Final, TypeVar

import msgspec

from mocketmq.errors import InvalidArgumentError
from mocketmq.http_api.fields import SETTING, allowed_by
from mocketmq.suggestion import suggestion_for

_PLACE: Final = re.compile(r"^(?P<what>.*?)(?: - at (?P<key>`key` in )?`\$\.?(?P<path>.*)`)?$", re.DOTALL)
_NAMED: Final = re.compile(r"(unknown|required) field `(.*)`", re.DOTALL)
_STEP: Final = re.compile(r"[^.\[\]]+|\[\d+\]|\[\.\.\.\]")

Schema = dict[str, Any]
_T = TypeVar("_T", bound=msgspec.Struct)


class _Missing:
    def __repr__(self) -> str:
        return "missing"


def converted(given: object, kind: type[_T], *, strict: bool = True) -> _T:
    """Convert the value to this type. Raises InvalidArgumentError."""
    try:
        return msgspec.convert(given, kind, strict=strict)
    except msgspec.ValidationError as error:
        raise _invalid_argument(error, kind, given) from None


def _invalid_argument(
    error: msgspec.ValidationError, kind: type[msgspec.Struct], given: object
) -> InvalidArgumentError:
    """Convert the error to one that names the field, its value and the rule.

    ``given`` is the value that could not be decoded as ``kind``.
    """
    place = _PLACE.match(str(error))
    what, path = (place["what"], place["path"] or "") if place else (str(error), "")
    definitions: dict[str, Schema] = msgspec.json.schema(kind)["$defs"]
    schema, value = definitions[kind.__name__], given
    for step in _STEP.findall(path):
        schema, value = _step(definitions, schema, step), _value(value, step)
    if place and place["key"]:
        schema = schema.get("propertyNames", {})
    elif named := _NAMED.search(what):
        path = f"{path}.{named[2]}" if path else named[2]
        value = _entry(value, named[2])
        if named[1] == "unknown":
            known = schema.get("properties", {})
            meant = suggestion_for(named[2], known)
            guess = f" (did you mean {meant}?)" if meant else ""
            return InvalidArgumentError(path, value, f"only {', '.join(known) or 'nothing'}{guess}")
        schema = _step(definitions, schema, named[2])
    return InvalidArgumentError(path or "body", value, _rule(schema))


def _step(definitions: dict[str, Schema], schema: Schema, step: str) -> Schema:
    if step.startswith("["):
        schema = schema.get("items") or schema.get("additionalProperties") or {}
    else:
        schema = schema.get("properties", {}).get(step, {})
    return definitions[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema


def _value(value: Any, step: str) -> object:
    if step == "[...]":  # a value of an object, whose key the decoder does not give
        return value
    if step.startswith("["):
        index = int(step[1:-1])
        return value[index] if isinstance(value, list) and index < len(value) else _Missing()
    return _entry(value, step)


def _entry(value: object, name: str) -> object:
    return value.get(name, _Missing()) if isinstance(value, dict) else _Missing()


def _rule(schema: Schema) -> str:
    match schema:
        case {"pattern": _, "description": rule}:
            return str(rule)
        case {"enum": values}:
            return ", ".join(map(repr, values))
        case {"anyOf": [*some]} if all("enum" in one for one in some):
            return ", ".join(repr(value) for one in some for value in one["enum"])
        case {"anyOf": _, "description": rule}:
            return str(rule)
        case {"type": "integer", "minimum": low, "maximum": high}:
            allows = allowed_by(schema[SETTING]) if SETTING in schema else ""
            return f"a whole number from {low} to {high}{allows}"
        case {"type": "array", "minItems": low, "maxItems": high}:
            return f"a list of {low} to {high} entries"
        case {"type": "array", "maxItems": high}:
            return f"a list of up to {high} entries"
        case {"type": "string", "minLength": low, "maxLength": high}:
            return f"text of {low} to {high} characters"
        case {"type": "string", "minLength": _}:
            return "text that is not empty"
        case {"type": str(name)}:
            return {"integer": "a whole number", "array": "a list", "string": "text"}.get(name, f"an {name}")
    return "an object"
