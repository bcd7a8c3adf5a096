"""Registry: the topics, groups and clients that there are, and what the name server alone knows."""
