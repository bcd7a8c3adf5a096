"""What applications with unmodified clients of every protocol see of injected faults, for docs/faults.md."""
