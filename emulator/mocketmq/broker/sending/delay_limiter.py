"""Applies another system's delay limits (``mocketmq.delay_limits``) to the delays of messages."""

import logging

from mocketmq.clock import LATEST_US, US_PER_MS, Clock, whole_ms_us
from mocketmq.delay_limits import DELAY_LIMITS, DelayLimits, Way
from mocketmq.errors import IllegalMessageError, SettingError
from mocketmq.message.properties import DELAY, START_DELIVER_TIME, TIMER_DEL_UNIQKEY, TIMER_OUT_MS, TIMERS
from mocketmq.schedule.level_table import LevelTable
from mocketmq.schedule.scheme_set import Claim, SchemeSet
from mocketmq.settings import Settings

log = logging.getLogger(__name__)


def delay_limits_of(settings: Settings) -> DelayLimits | None:
    """Return the delay limits named in the settings, or None.

    Raises SettingError if other settings contradict the limits.
    """
    if settings.delay_limits is None:
        return None
    default = Settings()
    for name in ("start_deliver_time", "start_deliver_window_us"):
        if getattr(settings, name) != getattr(default, name):
            other = name.removesuffix("_us")
            raise SettingError(
                "delay_limits", settings.delay_limits, f"either delay_limits or {other}, which they replace"
            )
    return DELAY_LIMITS[settings.delay_limits]


class DelayLimiter:
    """Refuses, rounds or drops delays as the limits say."""

    def __init__(
        self, delay_limits: DelayLimits, clock: Clock, levels: LevelTable, schemes: SchemeSet
    ) -> None:
        self.delay_limits = delay_limits
        self._clock = clock
        self._levels = levels
        self._schemes = schemes
        self._logged: set[Way] = set()

    def granted(
        self, properties: dict[str, str], level: int, claim: Claim | None
    ) -> tuple[int, Claim | None]:
        """Return the delay level and the claim for a message, given the requested level and claim.

        May change the properties. Raises IllegalMessageError in the other system's words.
        """
        if (claim is None and not level) or TIMER_DEL_UNIQKEY in properties:
            return level, claim
        delay_limits, now_us = self.delay_limits, self._clock.now_us()
        if claim is None and delay_limits.knows_levels:
            return level, None
        way: Way = "level" if claim is None else "start" if START_DELIVER_TIME in properties else "timer"
        due_us = now_us + self._levels.delay_us(level) if claim is None else claim.due_us
        ignored = way in delay_limits.ignores
        if delay_limits.is_refused(due_us - now_us, ignored=ignored):
            raise IllegalMessageError(_field(properties, way), delay_limits.words(due_us - now_us))
        if delay_limits.is_at_once(due_us - now_us, ignored=ignored):
            self._tell(way)
            for name in (DELAY, TIMER_OUT_MS):
                properties.pop(name, None)
            return 0, None
        if claim is None:
            if delay_limits.ahead is None:
                return level, None  # delays of levels are whole seconds, so there is nothing to round
            properties.pop(DELAY)
            claim = Claim(self._schemes.timed(), due_us)
        granted_us = min(delay_limits.rounded_us(now_us, claim.due_us), LATEST_US)
        if TIMER_OUT_MS in properties:
            properties[TIMER_OUT_MS] = str(whole_ms_us(granted_us) // US_PER_MS)
        return 0, claim._replace(due_us=granted_us)

    def _tell(self, way: Way) -> None:
        """Log once that this way of delaying has no effect."""
        if way not in self._logged:
            self._logged.add(way)
            log.warning(
                "delivering a message at once although it requests a delay, as %s does (delay limits %s)",
                self.delay_limits.title,
                self.delay_limits.name,
            )


def _field(properties: dict[str, str], way: Way) -> str:
    """Return the JSON API's name of the field that requests the delay."""
    if way == "timer":
        return f"properties.{next(name for name in TIMERS if name in properties)}"
    return "delay_level" if way == "level" else "start_deliver_ms"
