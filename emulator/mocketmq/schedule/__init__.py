"""When messages become visible: delay schemes, the timer that fires them, and the ledger."""
