"""Inspection: answers for people about messages, pending messages, groups and consumers."""
