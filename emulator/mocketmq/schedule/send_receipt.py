"""What a sender learns about its message."""


class SendReceipt:
    """The position of a record as reported to the sender, with the fields of RocketMQ's response."""

    __slots__ = ("offset_message_id", "queue_id", "queue_offset")

    def __init__(self, offset_message_id: str, queue_id: int, queue_offset: int) -> None:
        self.offset_message_id = offset_message_id
        self.queue_id = queue_id
        self.queue_offset = queue_offset
