"""`run.sh` ends what it started, also what does not want to."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from deploy_cases import wait_until

from stagewise.deploy.run_script import _HEAD

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="needs bash"),
    pytest.mark.processes,
]

STUBBORN = r"""
keep stubborn bash -c 'trap "" TERM; echo $$ >pids; while true; do sleep 0.05; done'
bash -c 'trap "" TERM; echo $$ >own; while true; do sleep 0.05; done' &
all+=($!)
until [[ -s pids && -s own ]]; do sleep 0.05; done
exit 5
"""


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_what_does_not_end_when_asked_is_killed(tmp_path: Path) -> None:
    head = _HEAD.format(host="10.0.0.1", roles="cloud", environment="")
    head, times = re.subn(r"\bend (15|20) ", lambda found: f"end {int(found[1]) - 14} ", head)
    assert times == 2
    script = tmp_path / "run.sh"
    script.write_text(head + STUBBORN)
    assert subprocess.run(["bash", script], timeout=60, check=False).returncode == 5
    pids = [int((tmp_path / name).read_text()) for name in ("pids", "own")]
    wait_until(lambda: all(gone(pid) for pid in pids))
