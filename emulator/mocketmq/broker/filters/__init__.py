"""Filters: which messages of a topic a consumer wants, by tags or by SQL92."""
