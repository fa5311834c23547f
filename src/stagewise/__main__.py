"""`python -m stagewise`."""

from stagewise.cli.main import run

run()
