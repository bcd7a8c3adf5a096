"""All families of requests, in the order in which the documentation lists them."""

from typing import Final

from mocketmq.remoting.requests.assignment import ASSIGNMENT
from mocketmq.remoting.requests.configuration import CONFIGURATION
from mocketmq.remoting.requests.connections import CONNECTIONS
from mocketmq.remoting.requests.consumers import CONSUMERS
from mocketmq.remoting.requests.group_lag import PROGRESS
from mocketmq.remoting.requests.groups import GROUPS
from mocketmq.remoting.requests.kv_config import KV_CONFIG
from mocketmq.remoting.requests.lite_topics import LITE_TOPICS
from mocketmq.remoting.requests.locks import LOCKS
from mocketmq.remoting.requests.lookup import LOOKUP
from mocketmq.remoting.requests.membership import MEMBERSHIP
from mocketmq.remoting.requests.offsets import OFFSET_TABLES, OFFSETS, RESETS
from mocketmq.remoting.requests.popping import POPPING
from mocketmq.remoting.requests.pulling import PULLING
from mocketmq.remoting.requests.recall import RECALL
from mocketmq.remoting.requests.replies import REPLIES
from mocketmq.remoting.requests.routes import ROUTES
from mocketmq.remoting.requests.runtime import RUNTIME
from mocketmq.remoting.requests.send_back import SEND_BACK
from mocketmq.remoting.requests.sending import SENDING
from mocketmq.remoting.requests.static_topics import STATIC_TOPICS
from mocketmq.remoting.requests.statistics import STATISTICS
from mocketmq.remoting.requests.topics import TOPICS
from mocketmq.remoting.requests.transactions import TRANSACTIONS
from mocketmq.remoting.requests.users import USERS

FAMILIES: Final = (
    ROUTES,
    KV_CONFIG,
    SENDING,
    TRANSACTIONS,
    RECALL,
    REPLIES,
    PULLING,
    POPPING,
    OFFSETS,
    MEMBERSHIP,
    ASSIGNMENT,
    LOCKS,
    SEND_BACK,
    LOOKUP,
    RESETS,
    CONSUMERS,
    CONNECTIONS,
    PROGRESS,
    STATISTICS,
    RUNTIME,
    TOPICS,
    STATIC_TOPICS,
    GROUPS,
    LITE_TOPICS,
    OFFSET_TABLES,
    CONFIGURATION,
    USERS,
)

REQUESTS: Final = {int(request.code): request for family in FAMILIES for request in family.requests}
