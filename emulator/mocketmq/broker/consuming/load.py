"""What a front door holds for its clients, as far as it counts before messages are read."""

from typing import NoReturn, Protocol


class Load(Protocol):
    """Messages for one client, from just before they are read until they are sent."""

    def reserve(self, most: int) -> int:
        """Count up to ``most`` bytes, as far as there is room, and return how many."""

    def settle(self, size: int) -> None:
        """Count the bytes of what was read in place of those that were reserved."""

    def refuse(self) -> NoReturn:
        """Raise the door's refusal, as there is too little room for the next message."""
