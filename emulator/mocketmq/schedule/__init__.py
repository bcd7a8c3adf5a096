"""Delay messages: the schemes that keep them, the timer that fires these, and the ledger of deliveries."""
