"""Programs that mean harm, or are cut off, against a broker in a process of its own."""
