"""Delayed messages: the schemes that keep them, the timer that fires them, and the ledger of deliveries."""
