"""Computing: from rows to small tables that merge, and to those of the report."""
