"""``neighbour FILE``: writes the file anew and syncs it, 64 MB twice a second, until it is terminated."""

import os
import sys
from pathlib import Path
from time import perf_counter, sleep

_PIECE = os.urandom(1 << 20)
_PIECES = 64
_EVERY_S = 0.5


def main() -> None:
    """Write until the end."""
    file = Path(sys.argv[1])
    print("writing", flush=True)
    while True:
        began = perf_counter()
        with file.open("wb") as out:
            for _ in range(_PIECES):
                out.write(_PIECE)
            out.flush()
            os.fsync(out.fileno())
        sleep(max(began + _EVERY_S - perf_counter(), 0))


if __name__ == "__main__":
    main()
