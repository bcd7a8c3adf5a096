"""Verification: answers for tests about sent messages, their outcomes, leaks and events."""
