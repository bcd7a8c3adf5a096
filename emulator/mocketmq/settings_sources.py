"""The sources of settings: flags, variables and the TOML file, merged and checked.

For example, ``max_wait`` can be set by the flag ``--max-wait``, the environment variable
``MOCKETMQ_MAX_WAIT`` or the key ``max_wait`` in the TOML file. The flag takes precedence over the variable,
and the variable over the file, but all given values must be valid. The same rule parses all three. Only the
file can declare topics, groups, faults and seeds.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from mocketmq import setting_rules as rules
from mocketmq.errors import InvalidArgumentError, SettingError
from mocketmq.failpoint import ENVIRONMENT as FAILPOINT
from mocketmq.message.names import MAX_BROKERS
from mocketmq.settings import BrokerDeclaration, Declaration, GroupDeclaration, Settings, TopicDeclaration
from mocketmq.settings_file import SettingsFile
from mocketmq.suggestion import suggestion_for

_PREFIX: Final = "MOCKETMQ_"
_CONFIG: Final = "MOCKETMQ_CONFIG"  # names the TOML file
_URL: Final = "MOCKETMQ_URL"  # the broker that client commands connect to
_TABLES: Final = ("topics", "groups", "faults", "messages", "progress")
"""Arrays of tables in the file."""
_NOT_SETTINGS: Final = {_CONFIG, _URL, FAILPOINT}


class Option(msgspec.Struct, frozen=True):
    """A setting as an option of the command line."""

    name: str  # key in the flags of :func:`load_settings`
    help: str
    default: str  # as a user would write it; empty if the setting has no default
    is_bool: bool
    words: tuple[str, ...]  # the allowed values, if they are a few words

    @property
    def flag(self) -> str:
        return flag_of(self.name)


def options() -> tuple[Option, ...]:
    """All settings that have a flag, in the order of declaration."""
    return tuple(
        Option(
            name,
            each.help,
            each.default or "",
            each.rule is rules.BOOLEAN,
            each.rule.words,
        )
        for name, (_, each) in Settings.declared.items()
    )


def load_settings(
    flags: Mapping[str, object],
    environ: Mapping[str, str],
    config_file: Path | None = None,
    *,
    broker_tables: object = (),
) -> Settings:
    """Merge all sources of settings. A flag that is None or an empty variable counts as not given.

    Without ``config_file``, the variable ``MOCKETMQ_CONFIG`` may name one. ``broker_tables`` replace
    ``[[brokers]]`` of a file that has none. Variables without effect are logged. Raises SettingError.
    """
    path = config_file or environ.get(_CONFIG)
    file = SettingsFile.read(Path(path)) if path else SettingsFile("", "")
    table = file.parsed()
    declared = {kind: table.pop(kind, []) for kind in _TABLES}
    tables = table.pop("brokers") if isinstance(table.get("brokers"), list) else broker_tables or []
    brokers = _declarations(BrokerDeclaration, "brokers", tables, {}, file)
    for sentence in unknown_variables(environ):
        import logging  # noqa: PLC0415 - importing the settings must stay cheap

        logging.getLogger(__name__).warning("%s", sentence)
    variables = {name: environ.get(variable_of(name)) or None for name in Settings.declared}
    given = (
        _read(Settings, table, file)
        | _read(Settings, _given(variables), variable_of)
        | _read(Settings, _given(flags), flag_of)
    )
    if "port" in given:
        given = dict.fromkeys(("http_port", "namesrv_port", "broker_port", "grpc_port"), 0) | given
    if brokers:
        _check_declared_brokers(brokers, given, file)
        given["brokers"] = len(brokers)
    settings = Settings(**given)
    if settings.failover != "none" and not settings.slaves:
        raise SettingError(
            "failover", settings.failover, "none without slaves; --slaves 1 gives each broker one"
        )
    queues = {"read_queues": settings.topic_queues, "write_queues": settings.topic_queues}
    topics = _declarations(TopicDeclaration, "topics", declared["topics"], queues, file)
    settings = replace(settings, declared_brokers=brokers)
    _check_brokers(topics, settings.broker_names, file)
    return replace(
        settings,
        topics=topics,
        groups=_declarations(GroupDeclaration, "groups", declared["groups"], {}, file),
        faults=tuple(file.checked_tables("faults", declared["faults"])),
        messages=tuple(file.checked_tables("messages", declared["messages"])),
        progress=tuple(file.checked_tables("progress", declared["progress"])),
        file=file if path else None,
    )


def _check_declared_brokers(
    brokers: Sequence[BrokerDeclaration], given: Mapping[str, Any], file: SettingsFile
) -> None:
    """Raise SettingError if the tables contradict another setting or each other."""
    if len(brokers) > MAX_BROKERS:
        allowed = f"1 to {MAX_BROKERS} tables{file.given_by(f'brokers[{MAX_BROKERS}]')}"
        raise SettingError("brokers", _Word(f"{len(brokers)} tables"), allowed)
    if given.get("brokers", len(brokers)) != len(brokers):
        allowed = (
            f"{len(brokers)} or no value, as many as [[brokers]] of the file{file.given_by('brokers[0]')}"
        )
        raise SettingError("brokers", given["brokers"], allowed)
    for index, each in enumerate(brokers):
        for name in ("slave_id", "slave_port"):
            value = getattr(each, name)
            if value is not None and not given.get("slaves"):
                place = f"brokers[{index}].{name}"
                raise SettingError(place, value, f"no value without slaves = 1{file.given_by(place)}")
    without = [index for index, each in enumerate(brokers) if each.advertise is None]
    if 0 < len(without) < len(brokers):
        place = f"brokers[{without[0]}].advertise"
        raise SettingError(
            place, _Word("missing"), f"{rules.HOST.allowed}, as others have it{file.given_by(place)}"
        )


def _check_brokers(topics: Sequence[TopicDeclaration], known: Sequence[str], file: SettingsFile) -> None:
    """Raise SettingError for a topic on a broker that the cluster does not have."""
    for index, topic in enumerate(topics):
        for name in topic.brokers or ():
            if name not in known:
                place = f"topics[{index}].brokers"
                raise SettingError(place, name, f"{' or '.join(known)}{file.given_by(place)}")


def schema_of(kind: type[Declaration]) -> dict[str, dict[str, Any]]:
    """The JSON schemas of the keys of a table of the file, from the rules that read them."""
    schemas = {}
    for name, (_, each) in kind.declared.items():
        allowed = f"Allowed: {each.rule.allowed}"
        schemas[name] = {
            **each.rule.schema,
            "description": f"{each.help}. {allowed}" if each.help else allowed,
        }
        if each.default and schemas[name].get("type") == "string":
            schemas[name]["default"] = each.default
    return schemas


def flag_of(name: str) -> str:
    """The long option of a setting, for example ``--max-wait``."""
    return f"--{name.replace('_', '-')}"


def variable_of(name: str) -> str:
    """The environment variable of a setting, for example ``MOCKETMQ_MAX_WAIT``."""
    return _PREFIX + name.upper()


def unknown_variables(environ: Mapping[str, str]) -> list[str]:
    """Return a sentence for each variable with mocketmq's prefix that has no effect."""
    known = {*map(variable_of, Settings.declared), *_NOT_SETTINGS}
    names = [each.removeprefix(_PREFIX) for each in known]
    sentences = []
    for variable, text in environ.items():
        if text and variable.startswith(_PREFIX) and variable not in known:
            meant = suggestion_for(variable.removeprefix(_PREFIX).upper(), names)
            guess = f"; did you mean {_PREFIX}{meant}?" if meant else ""
            sentences.append(f"the variable {variable} has no effect{guess}")
    return sentences


class _Word(str):
    """A word that errors show in place of a value, without quotes."""

    __slots__ = ()
    __repr__ = str.__str__


def _read(
    kind: type[Declaration],
    raw: Mapping[str, object],
    source: SettingsFile | Callable[[str], str],
    place: str = "",
) -> dict[str, Any]:
    """Read and check the values of one source, by field.

    ``source`` is a file, with ``place`` as prefix of the names, or a function that returns the flag or
    variable of a name.
    """
    known = kind.declared

    def mistake(name: str, shown: object, allowed: str) -> SettingError:
        if isinstance(source, SettingsFile):
            return SettingError(place + name, shown, f"{allowed}{source.given_by(place + name)}")
        return SettingError(name, shown, allowed, source(name))

    values = {}
    for name, value in raw.items():
        if name not in known:
            names = [*known, *(_TABLES if kind is Settings else ())]
            meant = suggestion_for(name, names)
            guess = f" (did you mean {meant}?)" if meant else ""
            raise mistake(name, _Word(f"unknown{guess}"), ", ".join(names))
        field, declared = known[name]
        rule = declared.rule
        try:
            values[field] = rule.parse(_as_text(value, is_list=rule.is_list))
        except (ValueError, InvalidArgumentError):
            shown = _Word("hidden") if declared.is_secret else value
            raise mistake(name, shown, rule.allowed) from None
    return values


def _given(values: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in values.items() if value is not None}


def _as_text(value: object, *, is_list: bool) -> str:
    """Convert a value in a TOML file to the text that a user would type."""
    if is_list and isinstance(value, list):
        return ",".join(_as_text(each, is_list=False) for each in value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | str):
        return str(value)
    raise ValueError(value)


def _declarations(
    kind: type[Any], name: str, tables: object, defaults: dict[str, Any], file: SettingsFile
) -> tuple[Any, ...]:
    """Read the tables ``[[name]]`` of the file as declarations."""
    found: dict[str, object] = {}
    for index, table in enumerate(file.checked_tables(name, tables)):
        place = f"{name}[{index}]."
        if "name" not in table:
            allowed = kind.declared["name"][1].rule.allowed
            raise SettingError(
                f"{place}name", _Word("missing"), f"{allowed} (to be given by {file.place_of(place)})"
            )
        declaration = kind(**_read(kind, {**defaults, **table}, file, place))
        if declaration.name in found:
            raise SettingError(
                f"{place}name",
                declaration.name,
                f"a name that no other table has{file.given_by(f'{place}name')}",
            )
        found[declaration.name] = declaration
    return tuple(found.values())
