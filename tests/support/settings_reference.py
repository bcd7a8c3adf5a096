"""Generate docs/settings-reference.md from the settings: ``python -m tests.support.settings_reference``."""

from pathlib import Path

from mocketmq.settings import BrokerDeclaration, GroupDeclaration, Setting, Settings, TopicDeclaration
from mocketmq.settings_sources import flag_of, variable_of
from tests.support.markdown import marked_up, sentence_case, table

PAGE = Path(__file__).parents[2] / "docs" / "settings-reference.md"

_INTRODUCTION = """\
# All settings

Each setting of `mocketmq serve`, with its flag, its variable, its default and the allowed values. A flag
precedes a variable, and a variable the key in the settings file, which is the name of the setting.
[Settings, clock and profiles](settings.md) explains the most important ones. Editors complete and check the
file by [its schema](settings.schema.json).

This page is generated from the code by `python -m tests.support.settings_reference`.
"""
_IN_FILE = """\
## Tables of the settings file

Each `[[topics]]` declares a topic and each `[[groups]]` a consumer group, which exist from the start. Each
`[[brokers]]` declares a [broker](brokers.md#names-and-ports) of the cluster, in place of their number. A new
store begins with `[[messages]]`, which have the fields of [SeedMessage](json-api-reference.md#seedmessage),
and with `[[progress]]`, as [SeedProgress](json-api-reference.md#seedprogress). `[[faults]]` have the fields
of [FaultIn](json-api-reference.md#faultin).
"""


def page() -> str:
    """Return the text of the page."""
    blocks = [_INTRODUCTION.rstrip()]
    blocks += table(("setting", "meaning", "allowed"), map(_setting, Settings.declared.items()))
    blocks.append(_IN_FILE.rstrip())
    for name, kind in (
        ("topics", TopicDeclaration),
        ("groups", GroupDeclaration),
        ("brokers", BrokerDeclaration),
    ):
        blocks.append(f"### `[[{name}]]`")
        blocks += table(("field", "meaning", "allowed"), map(_field, kind.declared.items()))
    return "\n\n".join(blocks) + "\n"


def _setting(declared: tuple[str, tuple[str, Setting]]) -> tuple[str, ...]:
    name, _ = declared
    _, *cells = _field(declared)
    return f"`{name}`<br>`{flag_of(name)}`<br>`{variable_of(name)}`", *cells


def _field(declared: tuple[str, tuple[str, Setting]]) -> tuple[str, ...]:
    name, (_, setting) = declared
    default = f"<br>default `{setting.default}`" if setting.default else ""
    return (
        f"`{name}`",
        sentence_case(marked_up(setting.help)),
        f"{marked_up(setting.rule.allowed)}{default}",
    )


if __name__ == "__main__":
    PAGE.write_text(page())
