"""Every family of requests, in the order of the documentation."""

from typing import Final

from emulator.remoting.locks import LOCKS
from emulator.remoting.lookup import LOOKUP
from emulator.remoting.membership import MEMBERSHIP
from emulator.remoting.offsets import OFFSETS
from emulator.remoting.pulling import PULLING
from emulator.remoting.resets import RESETS
from emulator.remoting.routes import ROUTES
from emulator.remoting.send_back import SEND_BACK
from emulator.remoting.sending import SENDING

FAMILIES: Final = (ROUTES, SENDING, PULLING, OFFSETS, MEMBERSHIP, LOCKS, SEND_BACK, LOOKUP, RESETS)

REQUESTS: Final = {int(code): request for family in FAMILIES for code, request in family.requests.items()}
