"""Computes the tables of a report: from rows to small tables that merge, and to the report's tables."""
