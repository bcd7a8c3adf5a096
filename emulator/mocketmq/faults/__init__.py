"""Injected faults: rules that make the requests and deliveries they select fail, late or repeated."""
