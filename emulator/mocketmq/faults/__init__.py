"""Injected faults: rules that select requests and deliveries, and make them fail, wait or repeat."""
