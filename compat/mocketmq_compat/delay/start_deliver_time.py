"""Absolute due times in message properties: Aliyun's ``__STARTDELIVERTIME``, and RocketMQ 5.x timers.

If a message has several due times, the first in this list takes effect:

1. A delay level above 0 (docs/protocol/remoting.md §5.6, rule 2). The ``TIMER_*`` properties are then
   removed, as RocketMQ does; ``__STARTDELIVERTIME`` has no effect.
2. ``__STARTDELIVERTIME``, read by mode. The order before ``TIMER_*`` is our choice, because no broker
supports both.
3. ``TIMER_OUT_MS``. A broker has already delayed the message, so there is no second delay (rule 3).
4. ``TIMER_DELAY_SEC``, ``TIMER_DELAY_MS``, ``TIMER_DELIVER_MS``, in this order (rule 3), in every mode.

Absolute times come from a client's wall clock, so :meth:`Clock.from_wall` converts them. Relative delays
start at the current emulated time.

``__STARTDELIVERTIME`` by mode (docs/protocol/aliyun.md §2.7, and D-2 and D-6 of §3.2):

=================  ===================  ===================  ==============================
the value is       ``aliyun4``          ``aliyun5``          ``dongwo``
=================  ===================  ===================  ==============================
in the past        at once              at once              at once
now                at once              at once              delayed
in the window      delayed              delayed              delayed
beyond the window  refused, code 13     at once              delayed, to the end of 9999
malformed          refused, code 13     refused, code 13     refused, code 1, in Java's words
=================  ===================  ===================  ==============================

Differences from RocketMQ: Dongwo's patch has no latest time, and the RocketMQ 4.x that it patches has no
timers. RocketMQ's 5.x timers are due at whole seconds, ours at the millisecond in ``TIMER_OUT_MS`` (rule 7).
We refuse a delay that exceeds 64 bits as too long, while RocketMQ treats the due time as past (rule 5). A
timer with ``TIMER_DEL_UNIQKEY`` recalls a message in RocketMQ and is refused here (rule 6).
"""

import re
from dataclasses import dataclass
from typing import Final

from mocketmq.clock import LATEST_US, US_PER_MS, US_PER_S, Clock, whole_ms_us
from mocketmq.duration import format_duration
from mocketmq.errors import IllegalMessageError, InvalidArgumentError, RefusedError, shorten
from mocketmq.message.properties import (
    MAX_TIMER_DELAY_MS,
    START_DELIVER_TIME,
    TIMER_DEL_UNIQKEY,
    TIMER_DELAY_SEC,
    TIMER_DELIVER_MS,
    TIMER_OUT_MS,
    TIMERS,
)
from mocketmq.settings import StartDeliverMode

DUE_PROPERTIES: Final = frozenset({START_DELIVER_TIME, *TIMERS})
"""The properties that set a due time."""

_LONG: Final = re.compile(r"([+-]?)0*([0-9]{1,19})")
_INT64: Final = range(-(1 << 63), 1 << 63)
_A_LONG: Final = "a whole number of 64 bits"
_AN_INSTANT: Final = f"milliseconds since the epoch, {_A_LONG}, such as 1767225600000"
_START_FIELD: Final = "start_deliver_ms"  # the name of the property in the JSON API
_MAX_TIMER_DELAY_US: Final = MAX_TIMER_DELAY_MS * US_PER_MS
_ILLEGAL_TIMER: Final = (
    f"timer message illegal, the delay time should not be bigger than the max delay {MAX_TIMER_DELAY_MS}dms;"
    " or if set del msg, the delay time should be bigger than the current time"
)


@dataclass(eq=False, repr=False)
class StartDeliverTime:
    """Reads due times from message properties; ``__STARTDELIVERTIME`` and timers have separate windows."""

    _clock: Clock
    _mode: StartDeliverMode
    _window_us: int
    _timer_window_us: int = _MAX_TIMER_DELAY_US

    def due_us(self, properties: dict[str, str], level: int) -> int | None:
        """Read the emulated due time of a message; None if the message is not delayed.

        In mode ``dongwo`` the due time may be up to a millisecond in the past. Removes ``TIMER_*`` if the
        level is above 0, and adds ``TIMER_OUT_MS`` to a timer. Raises IllegalMessageError for a value that is
        malformed, too far ahead, or beyond the year 9999; InvalidArgumentError for a malformed
        ``__STARTDELIVERTIME`` in mode ``dongwo``.
        """
        if level > 0:
            for name in TIMERS:
                properties.pop(name, None)
            return None
        if (text := properties.get(START_DELIVER_TIME)) is not None:
            return self._start_us(text)
        for timer in TIMERS:
            if timer in properties:
                break
        else:
            return None
        if TIMER_OUT_MS in properties:
            return None
        due_us = self._timer_us(timer, properties)
        if due_us is not None:
            properties[TIMER_OUT_MS] = str(whole_ms_us(due_us) // US_PER_MS)
        return due_us

    def _start_us(self, text: str) -> int | None:
        value_ms = parse_long(text)
        if value_ms is None:
            raise self._malformed_start(text)
        now_us = self._clock.now_us()
        due_us = self._clock.from_wall(value_ms * US_PER_MS)
        if self._mode == "dongwo":
            # The patch compares whole milliseconds, so a due time within the current millisecond is not past.
            if due_us // US_PER_MS < now_us // US_PER_MS:
                return None
        elif due_us <= now_us:
            return None
        elif due_us > (end_us := whole_ms_us(now_us + self._window_us)):
            if self._mode == "aliyun5":
                return None
            last_ms = value_ms - whole_ms_us(due_us - end_us) // US_PER_MS
            raise IllegalMessageError(
                _START_FIELD,
                f"property {START_DELIVER_TIME} is {value_ms}, {format_duration(due_us - now_us)} ahead;"
                f" allowed: at most {format_duration(self._window_us)} ahead, now up to {last_ms}",
            )
        _check_calendar(_START_FIELD, START_DELIVER_TIME, value_ms, due_us)
        return due_us

    def _malformed_start(self, text: str) -> RefusedError:
        field = f"properties.{START_DELIVER_TIME}"
        if self._mode == "dongwo":
            reason = f'java.lang.NumberFormatException: For input string: "{text[:80]}"; '
            reason += f"property {START_DELIVER_TIME} must be {_AN_INSTANT}"
            return InvalidArgumentError(field, text, _AN_INSTANT, reason)
        return IllegalMessageError(
            field, f"property {START_DELIVER_TIME} is {shorten(text)}; allowed: {_AN_INSTANT}"
        )

    def _timer_us(self, name: str, properties: dict[str, str]) -> int | None:
        field, text = f"properties.{name}", properties[name]
        number = parse_long(text)
        if number is None:
            reason = f"property {name} is {shorten(text)}; allowed: {_A_LONG}"
            raise IllegalMessageError(field, f"{_ILLEGAL_TIMER}; {reason}")
        if TIMER_DEL_UNIQKEY in properties:
            reason = f"property {TIMER_DEL_UNIQKEY} is not supported; recall the message by its handle"
            raise IllegalMessageError(f"properties.{TIMER_DEL_UNIQKEY}", f"{_ILLEGAL_TIMER}; {reason}")
        now_us = self._clock.now_us()
        if name == TIMER_DELIVER_MS:
            due_us = self._clock.from_wall(number * US_PER_MS)
        else:
            due_us = now_us + number * (US_PER_S if name == TIMER_DELAY_SEC else US_PER_MS)
        if due_us <= now_us:
            return None
        if due_us > whole_ms_us(now_us + self._timer_window_us):
            reason = f"property {name} is {number}, {format_duration(due_us - now_us)} ahead"
            raise IllegalMessageError(field, f"{_ILLEGAL_TIMER}; {reason}")
        if name == TIMER_DELIVER_MS:  # a relative delay may end after the latest time, as a delay level may
            _check_calendar(field, name, number, due_us)
        return due_us


def parse_long(text: str) -> int | None:
    """Parse ASCII digits like Java's ``Long.parseLong``; None for a text for which Java throws."""
    match = _LONG.fullmatch(text)
    if match is None:
        return None
    number = int(match[1] + match[2])
    return number if number in _INT64 else None


def _check_calendar(field: str, name: str, value_ms: int, due_us: int) -> None:
    if due_us > LATEST_US:
        last_ms = value_ms - whole_ms_us(due_us - LATEST_US) // US_PER_MS
        raise IllegalMessageError(
            field, f"property {name} is {value_ms}; allowed: up to {last_ms}, where the year 9999 ends"
        )
