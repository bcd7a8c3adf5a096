"""``python -m tests.clients.broker_crashes`` writes docs/brokers-and-clients.md from the last run."""

import sys

from tests.clients.broker_crashes.table import write

if __name__ == "__main__":
    sys.exit(write())
