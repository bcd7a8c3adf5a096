"""Injected faults, by rules that select requests and deliveries and make them fail, late or repeated."""
