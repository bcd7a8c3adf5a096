"""Compute the tables of a report: from rows to small tables that can be merged, and on to the report's."""
