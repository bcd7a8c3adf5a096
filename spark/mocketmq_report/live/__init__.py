"""A running broker's lateness, followed."""
