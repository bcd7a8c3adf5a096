"""Tag filters: which messages of a topic a consumer wants."""

from dataclasses import dataclass

from emulator.errors import InvalidArgumentError
from emulator.message import TAGS, StoredMessage, decode_properties, java_hash

MAX_TAGS = 100


@dataclass(frozen=True, slots=True)
class TagFilter:
    """``*`` for everything, or tags such as ``A || B`` (sheet 8.3). ``tags`` empty: everything."""

    tags: frozenset[str] = frozenset()
    hashes: tuple[int, ...] = ()

    @classmethod
    def parse(cls, expression: str | None) -> "TagFilter":
        """Read a subscription expression. Raises InvalidArgumentError for more than 100 tags or none."""
        if expression is None or expression.strip() in ("", "*"):
            return EVERYTHING
        tags = frozenset(tag for part in expression.split("||") if (tag := part.strip()))
        if not 1 <= len(tags) <= MAX_TAGS:
            raise InvalidArgumentError(
                "filter", expression, f"* for everything, or 1 to {MAX_TAGS} tags parted by ||"
            )
        return cls(tags, tuple(sorted(map(java_hash, tags))))

    def matches(self, message: StoredMessage) -> bool:
        """Whether the message bears one of the tags. Two tags may have one hash, so both are compared."""
        if not self.tags:
            return True
        return (
            message.tag_hash in self.hashes and decode_properties(message.properties).get(TAGS) in self.tags
        )


EVERYTHING = TagFilter()
