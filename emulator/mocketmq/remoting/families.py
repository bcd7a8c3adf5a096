"""Every family of requests, in the order of the documentation."""

from typing import Final

from mocketmq.remoting.assignment import ASSIGNMENT
from mocketmq.remoting.configuration import CONFIGURATION
from mocketmq.remoting.connections import CONNECTIONS
from mocketmq.remoting.consumers import CONSUMERS
from mocketmq.remoting.groups import GROUPS
from mocketmq.remoting.kv_config import KV_CONFIG
from mocketmq.remoting.locks import LOCKS
from mocketmq.remoting.lookup import LOOKUP
from mocketmq.remoting.membership import MEMBERSHIP
from mocketmq.remoting.offset_tables import OFFSET_TABLES
from mocketmq.remoting.offsets import OFFSETS
from mocketmq.remoting.popping import POPPING
from mocketmq.remoting.progress import PROGRESS
from mocketmq.remoting.pulling import PULLING
from mocketmq.remoting.recall import RECALL
from mocketmq.remoting.replies import REPLIES
from mocketmq.remoting.resets import RESETS
from mocketmq.remoting.routes import ROUTES
from mocketmq.remoting.runtime import RUNTIME
from mocketmq.remoting.send_back import SEND_BACK
from mocketmq.remoting.sending import SENDING
from mocketmq.remoting.statistics import STATISTICS
from mocketmq.remoting.topics import TOPICS
from mocketmq.remoting.transactions import TRANSACTIONS

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
    GROUPS,
    OFFSET_TABLES,
    CONFIGURATION,
)

REQUESTS: Final = {int(code): request for family in FAMILIES for code, request in family.requests.items()}
