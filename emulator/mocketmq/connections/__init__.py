"""Shared by doors with long-lived connections: TLS, its certificate, and memory limits."""
