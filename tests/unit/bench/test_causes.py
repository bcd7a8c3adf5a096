"""The causes of a late delivery are the steps that took most of its time, the nearest first."""

import pytest

from tests.bench.causes import (
    BLOCKED,
    COMMIT,
    COPY,
    GARBAGE,
    SYNC,
    TRANSACTION,
    UNEXPLAINED,
    Cause,
    Mark,
    cause_of,
)

WRITE, TURN = f"{COMMIT} {BLOCKED}", f"{TRANSACTION} {BLOCKED}"


@pytest.mark.parametrize(
    ("marks", "cause"),
    [
        ([], Cause(UNEXPLAINED, 90)),
        ([Mark(GARBAGE, 0, 100), Mark(GARBAGE, 200, 300)], Cause(UNEXPLAINED, 90)),
        ([Mark(WRITE, 50, 170)], Cause(WRITE, 70)),
        ([Mark(TURN, 90, 190), Mark(WRITE, 100, 180)], Cause(WRITE, 80)),
        ([Mark(SYNC, 0, 300), Mark(TURN, 140, 190), Mark(COPY, 190, 195)], Cause(TURN, 50)),
        ([Mark(GARBAGE, 110, 130), Mark(GARBAGE, 120, 140), Mark(GARBAGE, 160, 190)], Cause(GARBAGE, 60)),
        ([Mark(WRITE, 100, 110)], Cause(UNEXPLAINED, 80)),
    ],
    ids=["nothing", "before and after", "in part", "the nearest", "beside it", "in pieces", "too little"],
)
def test_the_cause_is_the_longest_stage(marks: list[Mark], cause: Cause) -> None:
    assert cause_of(100, 200, marks, usual_us=10) == cause
