"""Who may come in, and what they may do: accounts, whichever door they come by."""
