"""Headers of requests that name a queue; other headers add fields to them."""

from mocketmq.remoting.wire.header import Int32, RequestHeader


class QueueHeader(RequestHeader):
    """Header of requests that name only a queue."""

    topic: str
    queue_id: Int32


class ConsumerQueueHeader(RequestHeader):
    """Header of requests that name only a consumer group and a queue."""

    consumer_group: str
    topic: str
    queue_id: Int32
