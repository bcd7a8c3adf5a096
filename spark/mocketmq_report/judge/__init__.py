"""Judge a report by thresholds, and compare it with earlier ones."""
