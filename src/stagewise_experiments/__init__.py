"""The paper's figures and tables, and ours: declared in files, run cell by cell, judged by numbers."""
