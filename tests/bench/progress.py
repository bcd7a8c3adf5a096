"""Progress of a benchmark, on standard error."""

import sys
from collections.abc import Iterator


def say(text: str) -> None:
    """Print a line of progress."""
    print(f"  {text}", file=sys.stderr, flush=True)


def rounds(what: str, count: int) -> Iterator[int]:
    """Number the rounds from 1, printing each."""
    for number in range(1, count + 1):
        say(f"{what}: round {number} of {count}")
        yield number
