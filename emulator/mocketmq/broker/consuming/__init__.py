"""Consuming: pull by offset, receive by receipt, pop; acknowledgements, retries and dead letters."""
