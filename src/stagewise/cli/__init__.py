"""The command line: `stagewise`."""
