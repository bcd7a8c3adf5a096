"""What other systems promise about delays: their limits as data, and one judge for the broker and reports."""
