"""Apply the contract of another system to the delays that messages ask for (``mocketmq.contracts``)."""

import logging

from mocketmq.clock import LATEST_US, US_PER_MS, Clock, whole_ms_us
from mocketmq.contracts.contract import Contract, Way
from mocketmq.contracts.systems import CONTRACTS
from mocketmq.errors import IllegalMessageError, SettingError
from mocketmq.message.properties import DELAY, START_DELIVER_TIME, TIMER_DEL_UNIQKEY, TIMER_OUT_MS, TIMERS
from mocketmq.schedule.level_table import LevelTable
from mocketmq.schedule.scheme_set import Claim, SchemeSet
from mocketmq.settings import Settings

log = logging.getLogger(__name__)


def contract_of(settings: Settings) -> Contract | None:
    """The contract that the settings ask for.

    Raises SettingError beside settings of which it takes the place.
    """
    if settings.contract is None:
        return None
    default = Settings()
    for name in ("start_deliver_time", "start_deliver_window_us"):
        if getattr(settings, name) != getattr(default, name):
            other = name.removesuffix("_us")
            raise SettingError("contract", settings.contract, f"no contract beside {other}, which it decides")
    return CONTRACTS[settings.contract]


class Contracted:
    """Refuses, rounds or drops delays as a contract says."""

    def __init__(self, contract: Contract, clock: Clock, levels: LevelTable, schemes: SchemeSet) -> None:
        self.contract = contract
        self._clock = clock
        self._levels = levels
        self._schemes = schemes
        self._told: set[Way] = set()

    def granted(
        self, properties: dict[str, str], level: int, claim: Claim | None
    ) -> tuple[int, Claim | None]:
        """The delay level and the claim that take the place of those a message asks for.

        May change the properties. Raises IllegalMessageError in the words of the system.
        """
        if (claim is None and not level) or TIMER_DEL_UNIQKEY in properties:
            return level, claim
        contract, now_us = self.contract, self._clock.now_us()
        if claim is None and contract.knows_levels:
            return level, None
        way: Way = "level" if claim is None else "start" if START_DELIVER_TIME in properties else "timer"
        due_us = now_us + self._levels.delay_us(level) if claim is None else claim.due_us
        ignored = way in contract.ignores
        if contract.is_refused(due_us - now_us, ignored=ignored):
            raise IllegalMessageError(_field(properties, way), contract.words(due_us - now_us))
        if contract.is_at_once(due_us - now_us, ignored=ignored):
            self._tell(way)
            for name in (DELAY, TIMER_OUT_MS):
                properties.pop(name, None)
            return 0, None
        if claim is None:
            if contract.ahead is None:
                return level, None  # levels last whole seconds, so there is nothing to round
            properties.pop(DELAY)
            claim = Claim(self._schemes.timed(), due_us)
        granted_us = min(contract.rounded_us(now_us, claim.due_us), LATEST_US)
        if TIMER_OUT_MS in properties:
            properties[TIMER_OUT_MS] = str(whole_ms_us(granted_us) // US_PER_MS)
        return 0, claim._replace(due_us=granted_us)

    def _tell(self, way: Way) -> None:
        """Say once that a delay has no effect."""
        if way not in self._told:
            self._told.add(way)
            log.warning(
                "a message is delivered at once, although it asks for a delay: so does %s (contract %s)",
                self.contract.title,
                self.contract.name,
            )


def _field(properties: dict[str, str], way: Way) -> str:
    """What asks for the delay, as the JSON API calls it."""
    if way == "timer":
        return f"properties.{next(name for name in TIMERS if name in properties)}"
    return "delay_level" if way == "level" else "start_deliver_ms"
