"""What applications see of faults on purpose, by unmodified clients in every door: for docs/faults.md."""
