"""Headers and bodies of requests to brokers (docs/protocol/remoting.md §2).

Sources: PermName.java, ResponseCode.java (4.9.8).
"""

import json
from typing import Final

from mocketmq.clock import US_PER_MS
from mocketmq.message.properties import encode_properties

READ, WRITE = 4, 2
"""Bits of a topic's permission."""
STORED: Final = (0, 10, 11, 12)
"""Response codes for a stored message: success, and the codes for a late flush or replication."""
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
    """Make the header of a send. ``born_us`` is the local wall-clock time. Raises IllegalMessageError."""
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
    """Make the header of a pull that waits up to ``suspend_ms`` for messages."""
    return {
        "consumerGroup": group,
        "topic": topic,
        "queueId": str(queue_id),
        "queueOffset": str(offset),
        "maxMsgNums": "32",
        "sysFlag": str(4 | (2 if suspend_ms else 0)),  # flags: 4 for a subscription, 2 for a long poll
        "commitOffset": "0",
        "suspendTimeoutMillis": str(suspend_ms),
        "subscription": "*",
        "subVersion": "0",
        "expressionType": "TAG",
    }


def topic_ext(topic: str, queues: int) -> dict[str, str]:
    """Make the header that creates or changes a topic with this number of queues."""
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
    """Make the body that creates a consumer group."""
    config = {"groupName": group, "retryQueueNums": 1, "retryMaxTimes": 16, "brokerId": 0}
    flags = ("consumeEnable", "consumeFromMinEnable", "consumeBroadcastEnable")
    return json.dumps(config | dict.fromkeys(flags, True) | {"whichBrokerWhenConsumeSlowly": 1}).encode()
