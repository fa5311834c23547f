"""Training under a policy, round after round, recorded so that no interruption loses anything."""
