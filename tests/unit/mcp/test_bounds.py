"""Answers of tools are valid JSON of a bounded size, and say what they leave out."""

import json

import pytest

from mocketmq.mcp.bounds import MAX_ANSWER, bounded


def test_a_short_answer_is_unchanged() -> None:
    answer = {"messages": [{"body": "“7”", "keys": ["a", "b"], "due_ms": None, "late": 1.5}], "more": False}
    assert bounded(answer) == json.dumps(answer, ensure_ascii=False)


@pytest.mark.parametrize(
    "answer",
    [
        {"messages": [{"body": "x" * 100_000}] * 3},
        {"messages": [{"body": "\x00" * 100_000, "properties": {f"p{n}": "y" for n in range(5_000)}}] * 500},
        {"groups": [{"name": "g", "queues": [{"queue_id": n, "lag": 0} for n in range(1_000)]}] * 300},
        {"x" * 50_000: 1},
        {f"key {n}": "y" * 2_000 for n in range(1_000)},
    ],
)
def test_a_long_answer_is_cut_and_says_so(answer: dict[str, object]) -> None:
    text = bounded(answer)
    assert len(text) <= MAX_ANSWER
    json.loads(text)
    assert "left out" in text or " characters)" in text


def test_a_long_list_keeps_both_ends() -> None:
    events = json.loads(bounded({"events": [f"{n} {'x' * 400}" for n in range(300)]}))["events"]
    assert (events[0][:2], events[-1][:4]) == ("0 ", "299 ")
    assert events[len(events) // 2] == f"… ({300 - len(events) + 1} left out; ask for fewer)"


def test_an_answer_of_nothing_but_nested_objects_is_cut_anywhere() -> None:
    table: dict[str, object] = {f"k{n}": {f"l{m}": "z" * 40 for m in range(64)} for n in range(64)}
    text = bounded(table)
    assert len(text) == MAX_ANSWER
    assert text.endswith("characters; ask for less)")
