"""Runs under a folder, and what the service needs to look at them."""

import subprocess
import sys

OTHERS = "cryptography flwr torch mlxtend PIL pandas matplotlib jinja2 yaml distributed psycopg"
"""What other extras bring."""

BLOCKED = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in sys.argv[1:]:
            raise ModuleNotFoundError(f"{name}: of another extra", name=name)

sys.meta_path.insert(0, Blocked())
import stagewise.serve.app, stagewise.serve.server
"""


def test_the_service_starts_with_what_its_extra_brings():
    command = [sys.executable, "-c", BLOCKED, *OTHERS.split()]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
