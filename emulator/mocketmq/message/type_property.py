"""A property that makes a message one of a type, and has no effect on messages of other types."""

from collections.abc import Mapping
from typing import NamedTuple

from mocketmq.errors import IllegalMessageError, shorten


class TypeProperty(NamedTuple):
    """The property ``name``, which the JSON API calls ``field``.

    ``others`` are the properties of messages of other types. ``reason`` says why these have no such property.
    """

    name: str
    field: str
    others: tuple[str, ...]
    reason: str

    def check_alone(self, properties: Mapping[str, str]) -> None:
        """Raise IllegalMessageError if a message with the property is of another type."""
        other = next((name for name in self.others if name in properties), None)
        if other is not None:
            allowed = (
                f"none beside the property {other}, as {self.reason}. Send the message without one of them"
            )
            raise self.refusal(properties[self.name], allowed)

    def check_absent(self, properties: Mapping[str, str], reason: str) -> None:
        """Raise IllegalMessageError for a message with the property where it would have no effect."""
        if self.name in properties:
            raise self.refusal(properties[self.name], f"none, as {reason}")

    def refusal(self, text: str, allowed: str) -> IllegalMessageError:
        """The error for a value that is not allowed."""
        return IllegalMessageError(self.field, f"property {self.name} is {shorten(text)}; allowed: {allowed}")
