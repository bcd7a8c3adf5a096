"""Filters: select a topic's messages for a consumer, by tags or by SQL92 expressions."""
