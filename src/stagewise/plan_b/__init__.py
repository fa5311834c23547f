"""Plan B: in every round, who stands in for the long-term clients that are absent."""
