"""The incremental search kernel: moves tried in well under a microsecond, and what is built on it."""
