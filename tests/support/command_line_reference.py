"""Generate docs/command-line-reference.md from click: ``python -m tests.support.command_line_reference``."""

import re
from collections.abc import Iterator
from pathlib import Path

import click

from mocketmq.cli import commands
from mocketmq.cli.connection import broker_options
from mocketmq.settings_sources import options
from tests.support.markdown import marked_up, paragraphs, table

PAGE = Path(__file__).parents[2] / "docs" / "command-line-reference.md"

_INTRODUCTION = """\
# All commands

Each command of `mocketmq`, with its options, defaults and examples, as `mocketmq COMMAND --help` shows
them. [The command line](command-line.md) lists them by purpose. All have the same [exit
codes](errors.md#exit-codes).

This page is generated from the code by `python -m tests.support.command_line_reference`.

## Options of client commands

A command that talks to a broker has these options. `--url` and `--token` may also precede the command.
"""
_OF_CLIENTS = "It also has the [options of client commands](#options-of-client-commands)."
_OF_SETTINGS = "Each [setting](settings-reference.md) is an option as well."
_DEFAULT = re.compile(r"\s*\[default: (.+)\]$")
_HEADING = ("option", "meaning", "default")


def page() -> str:
    """Return the text of the page."""
    clients = _options(click.command(broker_options(_no_command)))
    blocks = [_INTRODUCTION.rstrip(), *table(_HEADING, map(_row, clients))]
    for path, command in walk(commands):
        blocks += _entry(path, command, [_row(each) for each in clients])
    return "\n\n".join(blocks) + "\n"


def walk(command: click.Command, *path: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Yield all commands and subcommands, with the words that call them."""
    if path:
        yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from walk(below, *path, name)


def _no_command(**_: object) -> None:
    """Carry the options of client commands."""


def _entry(path: tuple[str, ...], command: click.Command, of_clients: list[tuple[str, ...]]) -> Iterator[str]:
    name = " ".join(("mocketmq", *path))
    yield f"{'#' * (1 + len(path))} {name}"
    yield paragraphs(command.help or "")
    usage = command.collect_usage_pieces(click.Context(command, info_name=path[-1]))
    yield f"```text\n{' '.join((name, *usage))}\n```"
    flags = {option.flag for option in options()} if path == ("serve",) else set()
    rows = [_row(each) for each in _options(command) if each.opts[0] not in flags]
    is_client = all(row in rows for row in of_clients)
    yield from table(_HEADING, [row for row in rows if not is_client or row not in of_clients])
    if is_client or flags:
        yield _OF_CLIENTS if is_client else _OF_SETTINGS
    examples = (command.epilog or "").partition("Examples:\n")[2].splitlines()
    yield "\n".join(["```sh", *(line.strip() for line in examples), "```"])


def _options(command: click.Command) -> list[click.Option]:
    return [each for each in command.params if isinstance(each, click.Option) and not each.hidden]


def _row(option: click.Option) -> tuple[str, str, str]:
    names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
    meaning, default = option.help or "", ""
    if stated := _DEFAULT.search(meaning):
        meaning, default = meaning[: stated.start()], marked_up(stated[1])
    elif option.show_default:
        default = f"`{option.default}`"
    return f"{names}{_value(option)}", f"{marked_up(meaning)}{_more(option)}", default


def _value(option: click.Option) -> str:
    if option.is_flag or isinstance(option.type, click.types.BoolParamType | click.Choice):
        return ""
    return " " + marked_up(option.metavar or option.type.name.partition(" ")[0].upper())


def _more(option: click.Option) -> str:
    """Return what the help shows beside the text: choices, limits, variable, whether it must be given."""
    parts = []
    if isinstance(option.type, click.Choice):
        parts.append("One of " + ", ".join(f"`{each}`" for each in option.type.choices) + ".")
    elif isinstance(option.type, click.IntRange):
        parts.append(f"From {option.type.min:,}" + (f" to {option.type.max:,}." if option.type.max else "."))
    if option.envvar:
        parts.append(f"Variable: `{option.envvar}`.")
    if option.required:
        parts.append("Required.")
    return "".join(f" {part}" for part in parts)


if __name__ == "__main__":
    PAGE.write_text(page())
