"""Failpoints of transactions: how often a broker passes each before it dies there."""

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
SLOT_TIMES = {
    "slots.recorded": (1, 12, 60),
    "slots.marked": (1, 5, 40),
    "slots.removed": (1,),
}
"""The same for those of the scheme ``slots`` alone."""
