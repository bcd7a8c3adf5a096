"""Rewords errors of the API for the command line, with options instead of fields, in the options' units."""

import re

import click
from click.core import ParameterSource

from mocketmq.cli.output import instant
from mocketmq.client.answer import BrokerError
from mocketmq.errors import InvalidArgumentError, shorten

_PARAMETERS = {
    "by": "duration",
    "delay_level": "level",
    "delivered": "count",
    "filter": "tags sql",
    "group": "group name",
    "instant": "target",
    "instant_ms": "target at",
    "max": "max_messages",
    "message_id": "message_id consume",
    "properties.__STARTDELIVERTIME": "at properties",
    "queue_id": "queue",
    "read_queues": "queues",
    "start_deliver_ms": "at",
    "topic": "topic name",
    "write_queues": "queues",
}
"""Names of commands' parameters by API field, where the names differ."""
_INSTANTS = {"at", "target"}

_RANGE = re.compile("a whole number from ([0-9]+) to ([0-9]+)")
_MS = re.compile("([0-9]+) ms")
_LIMIT = re.compile("(?<=up to )[0-9]+")
_FIELD = re.compile(r"the field (\w+)|\b(delay_level|start_deliver_ms)\b|(?<=because )(delay)\b")
_ADVICE = re.compile(r"(?<=save with )(replace)\b")


def as_typed(error: BrokerError | InvalidArgumentError) -> str:
    """Reword an error about an API field in terms of the option or argument that set the field."""
    context, field, sentence = click.get_current_context(silent=True), error.field or "", str(error)
    if context is None:
        return sentence
    if (parameter := _parameter(context, field)) is None:
        sentence = _ADVICE.sub(lambda match: _flag(context, match), sentence)
        is_of_instants = not _INSTANTS.isdisjoint(context.params)
        return _MS.sub(lambda match: instant(int(match[1])), sentence) if is_of_instants else sentence
    shown, value = _name(context, parameter), _value(context, parameter, field)
    said, _, allowed = sentence.partition("; allowed: ")
    if field in ("queue_id", "offset"):  # errors about these fields have RocketMQ's text
        said, allowed = f"{field} is {value}", error.allowed or ""
    if " is " not in said or not allowed:
        return f"{shown}: {sentence}"
    if parameter.name in _INSTANTS:
        allowed = _LIMIT.sub(lambda match: instant(int(match[0])), _RANGE.sub(_instants, allowed))
    allowed = _FIELD.sub(lambda match: _flag(context, match), allowed.replace("filter_type SQL92", "--sql"))
    return f"{shown} is {value}; allowed: {allowed}"


def _parameter(context: click.Context, field: str) -> click.Parameter | None:
    """Return the command's parameter for the field, if it was given."""
    stem = re.split(r"[.\[]", field)[0]
    names = (_PARAMETERS.get(field) or _PARAMETERS.get(stem, stem)).split()
    given = {
        each.name: each for each in context.command.params if context.params.get(each.name or "") is not None
    }
    return next((given[name] for name in names if name in given), None)


def _name(context: click.Context, parameter: click.Parameter) -> str:
    """Return the parameter's longest option, its name in capitals, or the variable that it was read from."""
    if context.get_parameter_source(parameter.name or "") is ParameterSource.ENVIRONMENT:
        return str(parameter.envvar)
    is_option = isinstance(parameter, click.Option)
    return max(parameter.opts, key=len) if is_option else parameter.human_readable_name


def _value(context: click.Context, parameter: click.Parameter, field: str) -> str:
    """Return the typed value. For a repeated option, this is the invalid value if the field identifies it."""
    typed = context.params[parameter.name or ""]
    if not isinstance(typed, tuple):
        is_secret = parameter.name == "token" or (parameter.name == "url" and "@" in typed)
        return "hidden" if is_secret else shorten(typed)
    index = re.search(r"\[([0-9]+)\]", field)
    name = field.partition(".")[2]
    at_fault = [typed[int(index[1])]] if index else [each for each in typed if each.startswith(f"{name}=")]
    return " ".join(map(shorten, at_fault or typed))


def _flag(context: click.Context, match: re.Match[str]) -> str:
    """Return the option for a field, if the command has such an option."""
    field = next(filter(None, match.groups()))
    name = _PARAMETERS.get(field, field)
    flags = [max(each.opts, key=len) for each in context.command.params if each.name == name]
    return flags[0] if flags else match[0]


def _instants(match: re.Match[str]) -> str:
    first, last = (instant(int(text)) for text in match.groups())
    return f"an instant from {first} to {last}"
