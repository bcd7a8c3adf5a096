"""The broker: every decision about topics, groups, sending and consuming, for all front doors."""
