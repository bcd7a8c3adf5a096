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
"""The same for failpoints that are not of transactions alone."""
SLOT_TIMES: dict[str, tuple[int, ...]] = {
    "slots.recorded": (1, 12, 60),
    "slots.marked": (1, 5, 40),
    "slots.removed": (1,),
}
"""The same for those of the scheme ``slots`` alone."""
SCHEME_TIMES: dict[TimedSchemeName, dict[str, tuple[int, ...]]] = {
    "directories": {
        "files.writing": (1, 6, 50),
        "files.renamed": (1, 3, 20),
        "files.saved": (1, 4, 15),
        "files.picked": (1, 2, 6),
        "files.delivered": (1, 2, 5),
        "files.removed": (1, 4, 40),
    },
    "wheel": {
        "files.renamed": (1, 3, 20),
        "files.saved": (1, 4, 15),
        "wheel.loaded": (1, 2),
        "files.picked": (1, 2, 6),
        "files.delivered": (1, 2, 5),
        "wheel.marked": (1, 2),
        "wheel.removed": (1, 2, 4),
    },
    "slots": {
        "files.renamed": (1, 3, 20),
        "files.saved": (1, 4, 15),
        "files.picked": (1, 2, 6),
        "files.delivered": (1, 2, 5),
        "files.removed": (1, 4, 40),
        "slots.recorded": SLOT_TIMES["slots.recorded"],
        "slots.marked": SLOT_TIMES["slots.marked"],
    },
    "sorted": {
        "files.renamed": (1, 3, 20),
        "files.saved": (1, 4, 15),
        "files.picked": (1, 2, 6),
        "files.delivered": (1, 2, 5),
        "files.removed": (1, 4, 40),
    },
}
"""Those that a load passes in each delay scheme for absolute due times."""
