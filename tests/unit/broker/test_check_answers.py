"""Answers to check-backs: expected, missing, and for half messages that no caller waits for."""

import asyncio

from mocketmq.broker.transactions.check_backs import CheckAnswers
from tests.support.patience import HANGING_S


async def test_the_wait_ends_with_the_last_answer() -> None:
    answers = CheckAnswers()
    waiting = asyncio.ensure_future(answers.wait([7, 8], HANGING_S))
    await asyncio.sleep(0)
    answers.note(8)
    answers.note(9)
    await asyncio.sleep(0)
    assert not waiting.done()
    answers.note(7)
    assert await waiting == []


async def test_a_silent_client_is_named_in_the_error() -> None:
    answers = CheckAnswers()
    waiting = asyncio.ensure_future(answers.wait([7, 8], 0.01))
    await asyncio.sleep(0)
    answers.note(8)
    assert await waiting == [7]


async def test_answer_before_the_wait_does_not_count() -> None:
    answers = CheckAnswers()
    answers.note(7)
    assert await answers.wait([7], 0.01) == [7]
    assert await answers.wait([], 0.01) == []
