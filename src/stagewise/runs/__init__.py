"""Run folders: what a run is, its files, and the session that writes and resumes them."""
