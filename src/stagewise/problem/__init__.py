"""The problems P0, P1 and P2: what is minimised, and what must hold."""
