"""Methods that solve P0 anew in each round: the six the paper compares against, and our own."""
