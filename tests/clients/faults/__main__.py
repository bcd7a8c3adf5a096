"""``python -m tests.clients.faults`` writes the tables of docs/faults.md from the last run of the tests."""

import sys

from tests.clients.faults.table import write

if __name__ == "__main__":
    sys.exit(write())
