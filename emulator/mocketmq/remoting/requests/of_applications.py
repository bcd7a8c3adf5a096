"""The requests of applications, which are imported at the start; ``families`` adds the others."""

from collections.abc import Sequence
from typing import Final

from mocketmq.remoting.request import Request, RequestFamily
from mocketmq.remoting.requests.acknowledging import ACKNOWLEDGING
from mocketmq.remoting.requests.assignment import ASSIGNMENT
from mocketmq.remoting.requests.locks import LOCKS
from mocketmq.remoting.requests.membership import MEMBERSHIP
from mocketmq.remoting.requests.offsets import OFFSETS
from mocketmq.remoting.requests.popping import POPPING
from mocketmq.remoting.requests.pulling import PULLING
from mocketmq.remoting.requests.routes import ROUTES
from mocketmq.remoting.requests.send_back import SEND_BACK
from mocketmq.remoting.requests.sending import SENDING
from mocketmq.remoting.requests.transactions import TRANSACTIONS

FAMILIES: Final = (
    *(ROUTES, SENDING, TRANSACTIONS, PULLING, POPPING, ACKNOWLEDGING),
    *(OFFSETS, MEMBERSHIP, ASSIGNMENT, LOCKS, SEND_BACK),
)


def by_code(families: Sequence[RequestFamily]) -> dict[int, Request]:
    """All requests of the families, by their codes."""
    return {int(request.code): request for family in families for request in family.requests}
