"""The probe, which measures how late a real cluster delivers, over any protocol, and writes a ledger."""
