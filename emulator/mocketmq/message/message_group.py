"""The queue of a message group (ordering key), whose messages keep their order."""

from typing import Final

from mocketmq.message.properties import java_hash

_MULTIPLIER: Final = 2_862_933_555_777_941_757
_MASK: Final = (1 << 64) - 1


def queue_of_group(group: str, queues: int) -> int:
    """Choose the queue of a message group as upstream's proxy does.

    This is jump consistent hashing (Lamping and Veach, 2014) of Java's hash of the group's name, with the
    random numbers and the rounding of Guava's ``Hashing.consistentHash``.
    """
    state, at = java_hash(group) & _MASK, 0
    while True:
        state = (state * _MULTIPLIER + 1) & _MASK
        following = int((at + 1) * (1 << 31) / ((state >> 33) + 1))
        if following >= queues:
            return at
        at = following
