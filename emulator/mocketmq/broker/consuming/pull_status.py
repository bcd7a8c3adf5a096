"""The status of a pull.

Apart from ``pull``, because this module is not compiled: mypyc replaces the docstring of an Enum, which the
JSON API's description shows.
"""

from enum import Enum


class PullStatus(Enum):
    """The status of a pull, as RocketMQ's GetMessageStatus."""

    FOUND = "FOUND"
    NO_MATCHED_MESSAGE = "NO_MATCHED_MESSAGE"
    NO_MESSAGE_IN_QUEUE = "NO_MESSAGE_IN_QUEUE"
    OFFSET_TOO_SMALL = "OFFSET_TOO_SMALL"
    OFFSET_OVERFLOW_ONE = "OFFSET_OVERFLOW_ONE"
    OFFSET_OVERFLOW_BADLY = "OFFSET_OVERFLOW_BADLY"
    OFFSET_RESET = "OFFSET_RESET"
