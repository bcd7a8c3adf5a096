"""Delay schemes whose messages are records in a store of their own, in order of delivery."""
