"""Headers and bodies of requests to brokers, as clients write them (docs/protocol/remoting.md §2).

Sources: PermName.java, ResponseCode.java (4.9.8).
"""

import json
from typing import Final

from mocketmq.clock import US_PER_MS
from mocketmq.message.properties import encode_properties

READ, WRITE = 4, 2
"""Bits of a topic's permission."""
STORED: Final = (0, 10, 11, 12)
"""Codes of answers to a send: success, and those that only tell what was not flushed or copied in time."""
_DEFAULT_TOPIC: Final = "TBW102"


def send_ext(
    topic: str,
    group: str,
    queue_id: int,
    born_us: int,
    properties: dict[str, str],
    *,
    flag: int = 0,
    sys_flag: int = 0,
    is_batch: bool = False,
) -> dict[str, str]:
    """The header of a send, of a message born then by our wall clock. Raises IllegalMessageError."""
    return {
        "producerGroup": group,
        "topic": topic,
        "defaultTopic": _DEFAULT_TOPIC,
        "defaultTopicQueueNums": "4",
        "queueId": str(queue_id),
        "sysFlag": str(sys_flag),
        "bornTimestamp": str(born_us // US_PER_MS),
        "flag": str(flag),
        "properties": encode_properties(properties),
        "reconsumeTimes": "0",
        "unitMode": "false",
        "batch": str(is_batch).lower(),
    }


def pull_ext(topic: str, group: str, queue_id: int, offset: int, suspend_ms: int = 0) -> dict[str, str]:
    """The header of a pull, which waits so long for messages."""
    return {
        "consumerGroup": group,
        "topic": topic,
        "queueId": str(queue_id),
        "queueOffset": str(offset),
        "maxMsgNums": "32",
        "sysFlag": str(4 | (2 if suspend_ms else 0)),  # it says what it subscribes to; it may wait
        "commitOffset": "0",
        "suspendTimeoutMillis": str(suspend_ms),
        "subscription": "*",
        "subVersion": "0",
        "expressionType": "TAG",
    }


def topic_ext(topic: str, queues: int) -> dict[str, str]:
    """The header that makes a topic with so many queues, or gives it so many."""
    return {
        "topic": topic,
        "defaultTopic": _DEFAULT_TOPIC,
        "readQueueNums": str(queues),
        "writeQueueNums": str(queues),
        "perm": str(READ | WRITE),
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": "0",
        "order": "false",
    }


def group_body(group: str) -> bytes:
    """The body that makes a group."""
    config = {"groupName": group, "retryQueueNums": 1, "retryMaxTimes": 16, "brokerId": 0}
    flags = ("consumeEnable", "consumeFromMinEnable", "consumeBroadcastEnable")
    return json.dumps(config | dict.fromkeys(flags, True) | {"whichBrokerWhenConsumeSlowly": 1}).encode()
