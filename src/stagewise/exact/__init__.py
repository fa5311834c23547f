"""Certified optima: clusters by enumeration, a linear master for the bound, a search for the proof."""
