"""Experiments as data: one file each, run by `stagewise experiment`."""
