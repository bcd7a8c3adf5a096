"""Read and check changes of a topic's attributes (TopicAttributes and AttributeUtil of 5.3.3)."""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from mocketmq.errors import InvalidArgumentError

_LONGEST = (1 << 63) - 1


class _Attribute(NamedTuple):
    """``is_fixed``: it cannot change once its topic exists."""

    is_allowed: Callable[[str], bool]
    allowed: str
    is_fixed: bool = False


def _one_of(*values: str, is_fixed: bool = False) -> _Attribute:
    return _Attribute(values.__contains__, " or ".join(values), is_fixed)


def _is_reserve_time(text: str) -> bool:
    try:
        return -1 <= int(text) <= _LONGEST
    except ValueError:
        return False


_ATTRIBUTES: Final = {
    "queue.type": _one_of("SimpleCQ", is_fixed=True),  # messages of a batch are stored one by one
    "cleanup.policy": _one_of("DELETE", "COMPACTION", is_fixed=True),
    "message.type": _one_of("UNSPECIFIED", "NORMAL", "FIFO", "DELAY", "TRANSACTION", "MIXED"),
    "reserve.time": _Attribute(_is_reserve_time, "a whole number from -1 on"),
}


def parse_changes(text: str) -> Mapping[str, str]:
    """Read ``+name=value,-name`` as changes by signed name. Raises InvalidArgumentError as upstream."""
    changes: dict[str, str] = {}
    for part in text.split(",") if text else ():
        name, is_pair, value = part.partition("=")
        if is_pair and "+" not in name:
            raise _invalid(f"add/alter attribute format is wrong: {name}")
        if not is_pair and "-" not in name:
            raise _invalid(f"delete attribute format is wrong: {name}")
        if name in changes:
            raise _invalid(f"key duplication: {name}")
        changes[name] = value
    return changes


def changed_attributes(current: Mapping[str, str] | None, changes: Mapping[str, str]) -> dict[str, str]:
    """A topic's attributes after changes by signed name; ``current`` is None for a new topic.

    Raises InvalidArgumentError, in upstream's words, for a change that is not allowed.
    """
    after = dict(current or {})
    names = set()
    for signed, value in changes.items():
        sign, name = signed[:1], signed[1:]
        if not name or "+" in name or "-" in name:
            raise _invalid("kv string format wrong.")
        if name in names:
            raise _invalid(f"alter duplication key. key: {name}")
        names.add(name)
        if current is None and sign != "+":
            raise _invalid(f"only add attribute is supported while creating topic. key: {name}")
        if sign not in ("+", "-"):
            raise _invalid(f"wrong format key: {name}")
        if sign == "-" and name not in after:
            raise _invalid(f"attempt to delete a nonexistent key: {name}")
        attribute = _ATTRIBUTES.get(name)
        if attribute is None:
            raise _invalid(f"unsupported key: {name}")
        if current is not None and attribute.is_fixed:
            raise _invalid(f"attempt to update an unchangeable attribute. key: {name}")
        if sign == "-":
            del after[name]
        elif attribute.is_allowed(value):
            after[name] = value
        else:
            raise InvalidArgumentError(name, value, attribute.allowed)
    return after


def _invalid(reason: str) -> InvalidArgumentError:
    names = ", ".join(_ATTRIBUTES)
    return InvalidArgumentError("attributes", None, f"+name=value or -name, of {names}", reason)
