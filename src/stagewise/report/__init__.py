"""Pictures of runs, and one page with all of them."""
