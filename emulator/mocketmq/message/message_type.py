"""The types of messages, of which a topic takes one or, if it is mixed, all. Only gRPC clients say a type."""

from typing import Literal

MessageType = Literal["normal", "fifo", "delay", "transaction", "mixed"]
