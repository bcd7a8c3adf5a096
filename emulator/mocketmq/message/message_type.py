"""Message types. A topic accepts one type, or all types if it is mixed. Only gRPC clients declare a type."""

from typing import Literal

MessageType = Literal["normal", "fifo", "delay", "transaction", "priority", "lite", "mixed"]
