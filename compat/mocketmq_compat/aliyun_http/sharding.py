"""Choose a queue by sharding key, so that messages with one key are consumed in order."""

from typing import Final

from mocketmq.message.properties import java_hash

SHARDING_KEY: Final = "__SHARDINGKEY"

_SMALLEST: Final = -(1 << 31)


def sharded_queue_id(sharding_key: str, queues: int) -> int:
    """The id of the key's queue: the absolute value of Java's hash, as Aliyun's clients choose.

    The smallest integer has no absolute value in Java; it stands for the first queue.
    """
    code = java_hash(sharding_key)
    return 0 if code == _SMALLEST else abs(code) % queues
