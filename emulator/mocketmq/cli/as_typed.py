"""Errors in the words of who typed the command: its options instead of the API's fields, in their units."""

import re

import click
from click.core import ParameterSource

from mocketmq.cli.output import instant
from mocketmq.client.answer import BrokerError
from mocketmq.clock import US_PER_MS
from mocketmq.duration import format_duration
from mocketmq.errors import InvalidArgumentError, shorten

_PARAMETERS = {
    "by": "duration",
    "delay_level": "level",
    "delay_ms": "delay",
    "delivered": "count",
    "filter": "tags sql",
    "group": "group name",
    "instant_ms": "target at",
    "max": "max_messages",
    "message_id": "message_id consume",
    "properties.__STARTDELIVERTIME": "at properties",
    "queue_id": "queue",
    "read_queues": "queues",
    "start_deliver_ms": "at",
    "timeout_ms": "wait",
    "topic": "topic name",
    "wait_ms": "wait",
    "write_queues": "queues",
}
"""Parameters of commands, by the field of the API that they fill, where their names differ."""
_DURATIONS = {"delay", "wait"}
_INSTANTS = {"at", "target"}

_RANGE = re.compile("a whole number from ([0-9]+) to ([0-9]+)")
_MS = re.compile("([0-9]+) ms")
_LIMIT = re.compile("(?<=up to )[0-9]+")
_FIELD = re.compile(r"the field (\w+)|\b(delay_level|delay_ms|start_deliver_ms)\b")


def as_typed(error: BrokerError | InvalidArgumentError) -> str:
    """The error's sentence, about the option or argument that is at fault if one is."""
    context, field, sentence = click.get_current_context(silent=True), error.field or "", str(error)
    if context is None:
        return sentence
    if (parameter := _parameter(context, field)) is None:
        is_of_instants = not _INSTANTS.isdisjoint(context.params)
        return _MS.sub(lambda match: instant(int(match[1])), sentence) if is_of_instants else sentence
    shown, value = _name(context, parameter), _value(context, parameter, field)
    said, _, allowed = sentence.partition("; allowed: ")
    if field in ("queue_id", "offset"):  # whose sentences are upstream's
        said, allowed = f"{field} is {value}", error.allowed or ""
    if " is " not in said or not allowed:
        return f"{shown}: {sentence}"
    if parameter.name in _DURATIONS:
        allowed = _RANGE.sub(_durations, allowed)
    elif parameter.name in _INSTANTS:
        allowed = _LIMIT.sub(lambda match: instant(int(match[0])), _RANGE.sub(_instants, allowed))
    allowed = _FIELD.sub(lambda match: _flag(context, match), allowed.replace("filter_type SQL92", "--sql"))
    return f"{shown} is {value}; allowed: {allowed}"


def _parameter(context: click.Context, field: str) -> click.Parameter | None:
    """The parameter of the command that fills the field, if it was given."""
    stem = re.split(r"[.\[]", field)[0]
    names = (_PARAMETERS.get(field) or _PARAMETERS.get(stem, stem)).split()
    given = {
        each.name: each for each in context.command.params if context.params.get(each.name or "") is not None
    }
    return next((given[name] for name in names if name in given), None)


def _name(context: click.Context, parameter: click.Parameter) -> str:
    """The longest option or the name in capitals, or the variable from which it was read."""
    if context.get_parameter_source(parameter.name or "") is ParameterSource.ENVIRONMENT:
        return str(parameter.envvar)
    is_option = isinstance(parameter, click.Option)
    return max(parameter.opts, key=len) if is_option else parameter.human_readable_name


def _value(context: click.Context, parameter: click.Parameter, field: str) -> str:
    """What was typed; of a repeated option the one at fault, if the field says which."""
    typed = context.params[parameter.name or ""]
    if not isinstance(typed, tuple):
        return "hidden" if parameter.name == "token" else shorten(typed)
    index = re.search(r"\[([0-9]+)\]", field)
    name = field.partition(".")[2]
    at_fault = [typed[int(index[1])]] if index else [each for each in typed if each.startswith(f"{name}=")]
    return " ".join(map(shorten, at_fault or typed))


def _flag(context: click.Context, match: re.Match[str]) -> str:
    """The option that fills a field, if the command has one."""
    field = match[1] or match[2]
    name = _PARAMETERS.get(field, field)
    flags = [max(each.opts, key=len) for each in context.command.params if each.name == name]
    return flags[0] if flags else match[0]


def _durations(match: re.Match[str]) -> str:
    low, high = (format_duration(int(text) * US_PER_MS) for text in match.groups())
    return f"a duration from {low} to {high}"


def _instants(match: re.Match[str]) -> str:
    first, last = (instant(int(text)) for text in match.groups())
    return f"an instant from {first} to {last}"
