"""
A deployment on this machine, with a client killed
==================================================

The same policies out of the simulator: a cloud, two edges and six clients as processes of their
own on Flower, with TLS and node authentication. One client is killed in the middle; the rounds go
on.
"""

# %%
# Start everything
# ----------------
#
# One command starts all processes and trains; it ends all of them when it ends.

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

folder = Path(tempfile.mkdtemp())


def command(line):
    return [sys.executable, "-m", "stagewise", *line.split()]


up = subprocess.Popen(
    command("deploy up --clients 6 --edges 2 --rounds 8 --local --out live"),
    cwd=folder,
    stdout=subprocess.DEVNULL,
    stderr=subprocess.PIPE,
    text=True,
)
began = time.time()


def wait_for_round(number):
    lines = folder / "live" / "rounds.jsonl"
    while up.poll() is None:
        if lines.exists() and lines.read_text().count("\n") >= number:
            return
        time.sleep(0.05)


wait_for_round(1)
print(f"the first round is complete after {time.time() - began:.0f} s")

# %%
# Kill a client
# -------------
#
# ``deploy status`` says who is up, who trains where, and which process each one is. The client is
# killed in the middle of a round.

show = command("deploy status live --json")
told = subprocess.run(
    show, cwd=folder, capture_output=True, text=True, check=True
)
status = json.loads(told.stdout)
busy = next(
    client for members in status["trains"].values() for client in members
)
wait_for_round(status["complete"] + 1)
last = (folder / "live" / "live.jsonl").read_text().splitlines()[-1]
time.sleep(0.6 * json.loads(last)["delay_s"])
if up.poll() is None:
    os.kill(status["processes"][f"client-{busy}"]["pid"], signal.SIGKILL)
    print(f"killed {busy}")

# %%
# A supervisor starts it again. If it is away when a round begins, somebody stands in for it; an
# update that is lost in the middle of a round is left out of the mean.

_, told = up.communicate()
print(told.replace(str(folder), "..."))

# %%
# Who trained where
# -----------------
#
# A cross is a client that was away when the round began, a red border one whose updates did not
# all count: it was killed while the round waited for them.


def lines_of(name):
    text = (folder / "live" / name).read_text()
    return [json.loads(line) for line in text.splitlines()]


decisions, online = lines_of("decisions.jsonl"), lines_of("online.jsonl")
live = lines_of("live.jsonl")
scenario = json.loads((folder / "live" / "scenario.json").read_text())
clients = [client["id"] for client in scenario["clients"]]

import matplotlib.pyplot as plt

figure, axes = plt.subplots(figsize=(7.5, 3), layout="constrained")
colours = {"es0": "#1b6ca8", "es1": "#e0a030", None: "#dddddd"}
for decision, there, report in zip(decisions, online, live, strict=True):
    here = there if isinstance(there, list) else there["online"]
    failed = {
        update["client"]
        for update in report["updates"]
        if update["fate"] != "counted"
    }
    for place, client in enumerate(clients):
        where = decision["round"], place
        if client not in here:
            axes.scatter(*where, s=190, c="#b0402a", marker="x")
            continue
        colour = colours[decision["assignment"].get(client)]
        border = "#b0402a" if client in failed else colour
        axes.scatter(*where, s=190, c=colour, marker="s", ec=border, lw=2.5)
for label, colour, marker in (
    ("trains at es0", "#1b6ca8", "s"),
    ("trains at es1", "#e0a030", "s"),
    ("not needed", "#dddddd", "s"),
    ("away", "#b0402a", "x"),
):
    axes.scatter([], [], s=90, c=colour, marker=marker, label=label)
axes.set_yticks(
    range(len(clients)),
    [f"{name} (killed)" if name == busy else name for name in clients],
)
axes.set(
    xlabel="round",
    xlim=(-0.5, len(decisions) - 0.5),
    ylim=(-0.7, len(clients) - 0.3),
)
axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
plt.show()

# %%
# What became of every update
# ---------------------------
#
# Each update that a round asks for ends in exactly one of four fates. The deadline of the first
# round is generous, since nothing has been measured yet.

rounds = lines_of("rounds.jsonl")
for line, record in zip(live, rounds, strict=True):
    print(
        f"round {line['round']}: accuracy {record['accuracy']:.3f}, {line['fates']}, "
        f"{line['delay_s']:.1f} s of {line['deadline_s']:.1f} s"
    )

# %%
# The decisions can be checked like any others, since the files are the same:

check = command(
    "check live/scenario.json live/decisions.jsonl --online live/online.jsonl"
)
checked = subprocess.run(check, cwd=folder, capture_output=True, text=True)
print(checked.stdout, checked.stderr, f"exit status {checked.returncode}")

# %%
# What else may fail, and what happens then: :doc:`/deploy`. Several machines:
# :doc:`/deploy-three-hosts`.
