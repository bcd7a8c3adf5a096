"""Serve a request under an injected fault."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from mocketmq.errors import EmulatorError, InjectedError
from mocketmq.faults.fault import FaultyRequest, Hit
from mocketmq.faults.faults import Faults

T = TypeVar("T")


async def carry_out(
    faults: Faults,
    hit: Hit,
    request: FaultyRequest,
    act: Callable[[], Awaitable[T]],
    key_of: Callable[[T], str | None] = lambda _answer: None,
) -> T:
    """Return the answer of ``act`` with the fault applied; ``key_of`` extracts the unique key from it.

    Raises the errors of ``act``, those of the rule, and Unanswered.
    """
    fault, late_us = hit
    key, answer, error = request.unique_key, None, None
    if not fault.is_before:
        try:
            answer = await act()
            key = key or key_of(answer)
        except EmulatorError as refused:
            error = refused
    await faults.record(hit, request, key)
    try:
        await fault.impede(late_us)
    except InjectedError as injected:
        if error is not None:
            raise error from None
        injected.answer = answer
        raise
    if fault.is_before:
        return await act()
    if error is not None:
        raise error
    return answer  # type: ignore[return-value]
