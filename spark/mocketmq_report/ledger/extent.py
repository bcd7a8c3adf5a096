"""The extent of some rows of a ledger."""

from typing import NamedTuple


class Extent(NamedTuple):
    """How many rows there are, and when the first and the last were delivered, 0 if none was."""

    rows: int
    delivered_from_us: int
    delivered_to_us: int
