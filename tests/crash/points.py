"""How often a broker passes a failpoint before it dies there."""

from mocketmq.settings import TimedSchemeName

TRANSACTION_TIMES = {
    "transactions.prepared": (1, 7, 40),
    "transactions.checked": (1, 3, 9),
    "transactions.decided": (1, 5, 30),
}
OTHER_TIMES = {
    "writer.formed": (10, 60),
    "writer.written": (12, 70),
    "writer.committed": (15, 90),
    "files.renamed": (1, 4),
    "files.saved": (1, 5),
    "files.delivered": (1, 3),
    "clock.fired": (1, 6),
}
"""Numbers of passes for failpoints outside transactions."""
_COMMON = {
    "files.renamed": (1, 3, 20),
    "files.saved": (1, 4, 15),
    "files.picked": (1, 2, 6),
    "files.delivered": (1, 2, 5),
}
_REMOVED = {"files.removed": (1, 4, 40)}
SCHEME_TIMES: dict[TimedSchemeName, dict[str, tuple[int, ...]]] = {
    "directories": {**_COMMON, **_REMOVED, "files.writing": (1, 6, 50)},
    "wheel": {**_COMMON, "wheel.loaded": (1, 2), "wheel.marked": (1, 2), "wheel.removed": (1, 2, 4)},
    "slots": {**_COMMON, **_REMOVED, "slots.recorded": (1, 12, 60), "slots.marked": (1, 5, 40)},
    "sorted": {**_COMMON, **_REMOVED},
}
"""Numbers of passes for failpoints that a load reaches, by scheme for absolute due times."""
