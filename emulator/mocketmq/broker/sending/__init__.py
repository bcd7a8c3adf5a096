"""Sending: accepting messages from clients and storing them, replies, recall handles."""
