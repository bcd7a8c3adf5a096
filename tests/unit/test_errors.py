"""The error tree: its picture and its code table are complete, and no error repeats a whole body."""

import logging
import re
from collections.abc import Iterator

import pytest

from mocketmq import errors
from mocketmq.errors import (
    EmulatorError,
    InternalError,
    InvalidArgumentError,
    ReceiptError,
    RefusedError,
    SettingError,
    StoreLockedError,
    as_emulator_error,
    wire_codes,
)


def walk(kind: type[EmulatorError], depth: int = 0) -> Iterator[tuple[int, type[EmulatorError]]]:
    """Yield the error and all its subclasses, each with its depth, in order of definition."""
    yield depth, kind
    for child in kind.__subclasses__():
        yield from walk(child, depth + 1)


TREE = [(depth, kind) for depth, kind in walk(EmulatorError) if kind.__module__ == errors.__name__]


def test_docstring_shows_the_error_tree() -> None:
    picture = re.findall(r"^    ([│ ├└─]*)(\w+Error)\b", errors.__doc__ or "", re.MULTILINE)
    assert [(len(branch) // 4, name) for branch, name in picture] == [
        (depth, kind.__name__) for depth, kind in TREE
    ]


@pytest.mark.parametrize("kind", [kind for _, kind in TREE])
def test_every_error_has_codes_and_a_sentence(kind: type[EmulatorError]) -> None:
    codes = wire_codes(kind.__new__(kind))
    assert codes.http // 100 == (4 if issubclass(kind, RefusedError) else 5)
    assert codes.remoting > 0
    assert re.fullmatch(r"([A-Z][a-z]+)+", codes.aliyun)
    assert kind.__dict__["__doc__"].endswith(".")


@pytest.mark.parametrize("kind", [InvalidArgumentError, SettingError])
def test_a_long_value_is_shortened(kind: type[InvalidArgumentError] | type[SettingError]) -> None:
    error = kind("body", "x" * 10_000_000, "at most 4M")
    assert str(error).endswith("xxx…; allowed: at most 4M")
    assert len(str(error)) < 150
    assert (error.field, error.allowed) == ("body", "at most 4M")


def test_the_owner_of_a_locked_directory_is_named_if_known() -> None:
    assert "the process with pid 42" in str(StoreLockedError("data", 42))
    assert "another process" in str(StoreLockedError("data", None))


def test_a_defect_is_logged_and_named(caplog: pytest.LogCaptureFixture) -> None:
    refused = ReceiptError("x")
    assert as_emulator_error(refused) is refused
    assert not caplog.records
    with caplog.at_level(logging.ERROR):
        error = as_emulator_error(ZeroDivisionError("oops"))
    assert isinstance(error, InternalError)
    assert "oops" in str(error)
    assert caplog.records[0].exc_info
