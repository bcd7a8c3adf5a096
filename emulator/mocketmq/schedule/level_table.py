"""The table of delay levels, parsed as RocketMQ's ``messageDelayLevel`` (docs/protocol/remoting.md §5.1)."""

import re
from dataclasses import dataclass

from mocketmq.clock import US_PER_S
from mocketmq.duration import format_duration
from mocketmq.errors import InvalidArgumentError, SettingError, shorten
from mocketmq.message.properties import DELAY

_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_TOKEN = re.compile(r"([+-]?\d{1,12})([smhd])", re.ASCII)
_MAX_LEVELS = 1_000
_MAX_DELAY_S = 36_500 * _UNITS_S["d"]
_ALLOWED = (
    f"1 to {_MAX_LEVELS} whole numbers with a unit s, m, h or d, from -36500d to 36500d,"
    " separated by single spaces"
)
_NUMBER = re.compile(r"([+-]?)0*(\d{1,10})", re.ASCII)
_INT32 = range(-(1 << 31), 1 << 31)


@dataclass(frozen=True, slots=True)
class LevelTable:
    """``delays_us[level - 1]`` is the delay of a level. Levels are numbered from 1, by position."""

    text: str
    delays_us: tuple[int, ...]

    @classmethod
    def parse(cls, text: str) -> "LevelTable":
        """Parse a table such as ``1s 5s 10s``: whole numbers with unit s, m, h or d, separated by one space.

        As in RocketMQ, zero and negative delays are legal and mean "at once". Raises a SettingError that
        names the first invalid token; RocketMQ's broker exits in that case.
        """
        tokens = text.split(" ")
        if len(tokens) > _MAX_LEVELS:
            raise SettingError("levels", text, f"{_ALLOWED}; there are {len(tokens)}")
        delays_us = []
        for position, token in enumerate(tokens, start=1):
            match = _TOKEN.fullmatch(token)
            delay_s = int(match[1]) * _UNITS_S[match[2]] if match else None
            if delay_s is None or abs(delay_s) > _MAX_DELAY_S:
                raise SettingError(
                    "levels", text, f"{_ALLOWED}; number {position}, {shorten(token)}, is not one"
                )
            delays_us.append(delay_s * US_PER_S)
        return cls(text, tuple(delays_us))

    @property
    def highest(self) -> int:
        """The number of the highest level."""
        return len(self.delays_us)

    def delay_us(self, level: int) -> int:
        """The delay of a level; 1 s for a level that is no longer in the table, as in RocketMQ."""
        return self.delays_us[level - 1] if level <= len(self.delays_us) else US_PER_S

    def describe(self, level: int) -> str:
        """The delay of a level in readable form, such as ``10m``."""
        return format_duration(self.delay_us(level))

    def level_of(self, properties: dict[str, str]) -> int:
        """The level that a message requests, or 0. Clamps a level above the highest, also in the properties.

        Raises InvalidArgumentError, in Java's words, unless ``DELAY`` is a 32-bit number.
        """
        text = properties.get(DELAY)
        if text is None:
            return 0
        match = _NUMBER.fullmatch(text)
        if not match or (level := int(match[1] + match[2])) not in _INT32:
            allowed = f"a whole number, 1 to {self.highest} for a delay, 0 or less for none"
            reason = (
                f'java.lang.NumberFormatException: For input string: "{text[:40]}"; property {DELAY} must be'
            )
            raise InvalidArgumentError("delay_level", text, allowed, f"{reason} {allowed}")
        if level > self.highest:
            level = self.highest
            properties[DELAY] = str(level)
        return max(level, 0)
