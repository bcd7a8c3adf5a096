"""Every family of requests, in the order of the documentation."""

from typing import Final

from emulator.remoting.assignment import ASSIGNMENT
from emulator.remoting.configuration import CONFIGURATION
from emulator.remoting.connections import CONNECTIONS
from emulator.remoting.consumers import CONSUMERS
from emulator.remoting.groups import GROUPS
from emulator.remoting.kv_config import KV_CONFIG
from emulator.remoting.locks import LOCKS
from emulator.remoting.lookup import LOOKUP
from emulator.remoting.membership import MEMBERSHIP
from emulator.remoting.offset_tables import OFFSET_TABLES
from emulator.remoting.offsets import OFFSETS
from emulator.remoting.popping import POPPING
from emulator.remoting.progress import PROGRESS
from emulator.remoting.pulling import PULLING
from emulator.remoting.recall import RECALL
from emulator.remoting.replies import REPLIES
from emulator.remoting.resets import RESETS
from emulator.remoting.routes import ROUTES
from emulator.remoting.runtime import RUNTIME
from emulator.remoting.send_back import SEND_BACK
from emulator.remoting.sending import SENDING
from emulator.remoting.statistics import STATISTICS
from emulator.remoting.topics import TOPICS
from emulator.remoting.transactions import TRANSACTIONS

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
