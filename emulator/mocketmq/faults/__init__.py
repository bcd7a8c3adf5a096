"""Faults on purpose: rules that say which requests and deliveries are to go wrong, and how."""
