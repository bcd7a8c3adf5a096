"""The scheme ``slots``: an index per hour with slots of 0.1 s, and message data by day of delivery."""
