"""Injected faults: rules that choose requests and deliveries, and break them."""
