"""All families of requests. Those of admin tools are imported only when a client sends such a request."""

from typing import Final

from mocketmq.remoting.requests import of_applications
from mocketmq.remoting.requests.configuration import CONFIGURATION
from mocketmq.remoting.requests.connections import CONNECTIONS
from mocketmq.remoting.requests.consumers import CONSUMERS
from mocketmq.remoting.requests.group_lag import PROGRESS
from mocketmq.remoting.requests.groups import GROUPS
from mocketmq.remoting.requests.kv_config import KV_CONFIG
from mocketmq.remoting.requests.lite_topics import LITE_TOPICS
from mocketmq.remoting.requests.lookup import LOOKUP
from mocketmq.remoting.requests.offsets import OFFSET_TABLES, RESETS
from mocketmq.remoting.requests.recall import RECALL
from mocketmq.remoting.requests.replies import REPLIES
from mocketmq.remoting.requests.runtime import RUNTIME
from mocketmq.remoting.requests.static_topics import STATIC_TOPICS
from mocketmq.remoting.requests.statistics import STATISTICS
from mocketmq.remoting.requests.topics import TOPICS
from mocketmq.remoting.requests.users import USERS

FAMILIES: Final = (
    *of_applications.FAMILIES,
    *(KV_CONFIG, RECALL, REPLIES, LOOKUP, RESETS, CONSUMERS, CONNECTIONS, PROGRESS, STATISTICS, RUNTIME),
    *(TOPICS, STATIC_TOPICS, GROUPS, LITE_TOPICS, OFFSET_TABLES, CONFIGURATION, USERS),
)
REQUESTS: Final = of_applications.by_code(FAMILIES)
