"""Means that a few wrong updates cannot move far: the rules, once, for the simulator and deployments."""
