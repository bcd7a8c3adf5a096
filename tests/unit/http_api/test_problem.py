"""Problem documents: every error has its own name and title, and a status."""

import logging

import pytest
from msgspec import UNSET

from mocketmq.errors import (
    EmulatorError,
    InvalidArgumentError,
    StoreLockedError,
    TopicNotFoundError,
    UnauthorizedError,
    wire_codes,
)
from mocketmq.http_api.bodies import BodyTooLargeError
from mocketmq.http_api.problem import MalformedJSONError, problem_of, problem_response


@pytest.mark.parametrize(
    ("error", "name", "title", "status"),
    [
        (TopicNotFoundError("no"), "topic-not-found", "Topic not found", 404),
        (StoreLockedError("data", 1), "store-locked", "Store locked", 503),
        (MalformedJSONError("no"), "malformed-json", "Malformed JSON", 400),
        (BodyTooLargeError(7), "body-too-large", "Body too large", 413),
    ],
)
def test_names(error: EmulatorError, name: str, title: str, status: int) -> None:
    problem = problem_of(error)
    assert (problem.type, problem.title, problem.status) == (f"/problems/{name}", title, status)
    assert problem.detail == str(error)


def test_known_field_is_named() -> None:
    problem = problem_of(InvalidArgumentError("max", 0, "1 to 256"))
    assert (problem.field, problem.allowed) == ("max", "1 to 256")
    assert problem_of(TopicNotFoundError("no")).field is UNSET


def test_a_missing_token_is_requested() -> None:
    assert problem_response(UnauthorizedError("no")).headers["WWW-Authenticate"] == "Bearer"


def test_a_defect_is_logged_and_not_blamed_on_the_client(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        problem = problem_of(KeyError("x"))
    assert (problem.type, problem.status) == ("/problems/internal", 500)
    assert len(caplog.records) == 1


def test_problem_names_are_unique() -> None:
    def below(kind: type[EmulatorError]) -> list[type[EmulatorError]]:
        return [kind, *(one for child in kind.__subclasses__() for one in below(child))]

    kinds = [kind for kind in below(EmulatorError) if kind.__module__ == "mocketmq.errors"]
    problems = [problem_of(kind.__new__(kind)) for kind in kinds]
    assert len({problem.type for problem in problems}) == len(kinds)
    assert [problem.status for problem in problems] == [wire_codes(kind.__new__(kind)).http for kind in kinds]
