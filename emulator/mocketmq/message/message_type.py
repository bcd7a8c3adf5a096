"""Message types. A topic accepts one type, or all if it is mixed; only gRPC clients declare a type."""

from typing import Literal

MessageType = Literal["normal", "fifo", "delay", "transaction", "mixed"]
