"""The broker: decides everything about topics, groups, sending and consuming, for all front doors."""
