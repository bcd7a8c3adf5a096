"""The header of a send, in both forms: with full names, and with names of one letter (V2)."""

from typing import Final

from mocketmq.remoting.wire.header import Int32, RequestHeader


class SendMessageHeader(RequestHeader):
    """``born_timestamp`` is in milliseconds; ``batch`` means that the body holds several messages."""

    producer_group: str
    topic: str
    default_topic: str
    default_topic_queue_nums: Int32
    queue_id: Int32
    sys_flag: Int32
    born_timestamp: int
    flag: Int32
    properties: str = ""
    reconsume_times: Int32 = 0
    unit_mode: bool = False
    max_reconsume_times: Int32 | None = None
    batch: bool = False


V2_NAMES: Final = dict(
    zip(
        (
            *("producer_group", "topic", "default_topic", "default_topic_queue_nums", "queue_id", "sys_flag"),
            *("born_timestamp", "flag", "properties", "reconsume_times", "unit_mode", "max_reconsume_times"),
            "batch",
        ),
        "abcdefghijklm",
        strict=True,
    )
)
