"""Follows the lateness of a running broker."""
