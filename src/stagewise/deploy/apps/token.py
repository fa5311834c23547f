"""The token with which a Prometheus on the same machine reads a SuperLink's `/metrics`.

`python -m stagewise.deploy.apps.token cloud/superlink.secret >prometheus.token`
"""

import argparse
from pathlib import Path

from stagewise.deploy.flower_api.server_run import metrics_token
from stagewise.files import read_bytes


def main() -> None:
    parser = argparse.ArgumentParser(prog="stagewise-token", description="A token for /metrics")
    parser.add_argument("secret", type=Path, help="superlink.secret")
    print(metrics_token(read_bytes(parser.parse_args().secret)))


if __name__ == "__main__":
    from stagewise.deploy.running import run

    run(main)
