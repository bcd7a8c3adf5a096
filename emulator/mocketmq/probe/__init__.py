"""The probe: measures how late a real cluster delivers, by any of its protocols, and writes a ledger."""
