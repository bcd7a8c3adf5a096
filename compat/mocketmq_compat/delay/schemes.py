"""The delay schemes for absolute due times, by the name of the setting ``timed_scheme``.

To add one, write a folder here whose module ``kind`` has a :class:`SchemeKind` of the name ``KIND``, name it
in ``SCHEMES``, and in ``settings.TimedSchemeName``.
"""

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Final, NamedTuple

from mocketmq.errors import SettingError, StoreUnavailableError
from mocketmq.schedule.scheme_context import SchemeContext
from mocketmq.schedule.timed_scheme import TimedScheme
from mocketmq.settings import Settings, TimedSchemeName
from mocketmq.store.database import MEMORY
from mocketmq_compat.delay.scheme_kind import SchemeKind


class Place(NamedTuple):
    """Where a scheme keeps its messages, and where its code is, which is imported on use."""

    folder: str  # in the data directory
    package: str

    @property
    def kind(self) -> SchemeKind:
        """The scheme itself."""
        kind = import_module(f"{self.package}.kind").KIND
        assert isinstance(kind, SchemeKind)  # noqa: S101 - the registry's own promise
        return kind


DEFAULT: Final[TimedSchemeName] = "directories"
SCHEMES: Final[Mapping[TimedSchemeName, Place]] = {
    "directories": Place("delay", "mocketmq_compat.delay.directories"),
    "wheel": Place("wheel", "mocketmq_compat.delay.wheel"),
    "slots": Place("slots", "mocketmq_compat.delay.slots"),
    "sorted": Place("sorted", "mocketmq_compat.delay.sorted"),
}


async def open_timed_scheme(settings: Settings, context: SchemeContext) -> TimedScheme:
    """Open the scheme that the settings ask for.

    Raises SettingError when another scheme holds messages in the data directory, or a StoreError.
    """
    chosen = settings.timed_scheme
    if settings.start_deliver_time == "dongwo" and chosen != DEFAULT:
        raise SettingError("timed_scheme", chosen, f"{DEFAULT}, the scheme of start_deliver_time dongwo")
    if settings.data != MEMORY:
        data = settings.data
        for name in holding_messages(Path(data)):
            if name != chosen:
                takes_over = f"mocketmq delayed import {data} --data {data} --timed-scheme {chosen}"
                raise SettingError(
                    "timed_scheme",
                    chosen,
                    f"{name}, whose messages wait in {data}; {chosen} takes them over by: {takes_over}",
                )
    return await SCHEMES[chosen].kind.open_scheme(settings, context)


def holding_messages(data: Path) -> list[str]:
    """The schemes with messages in this data directory. Raises StoreUnavailableError."""
    try:
        return [
            name
            for name, place in SCHEMES.items()
            if (data / place.folder).is_dir() and place.kind.holds_messages(data / place.folder)
        ]
    except OSError as error:
        raise StoreUnavailableError(f"{error.filename or data} cannot be read: {error.strerror}") from error
