"""
A sweep on a Dask cluster
=========================

An experiment is a file: policies, axes to sweep, what to measure, and claims that numbers can
contradict. Its cells run on the cores of this machine or, as here, on the workers of a Dask
cluster.
"""

# %%
# The experiment
# --------------
#
# What does it cost where clients stay for one round or for ten?

import tempfile
from pathlib import Path

folder = Path(tempfile.mkdtemp())
(folder / "sessions.toml").write_text("""
id = "sessions"
title = "Short and long sessions"
paper = ""
about = "What a decision costs where clients stay online for two rounds or for ten."
measure = "decisions"
policies = ["local-search", "c2e-greedy-assoc"]
quantities = ["objective", "feasible_share"]

[setting.scenario]
clients = 30
edges = 2

[setting.participation]
model = "markov"

[[axes]]
name = "session"
field = "participation.mean_session"
values = [2.0, 5.0, 10.0]
label = "mean session (rounds)"

[profiles.quick]
seeds = 2
setting = { rounds = 4 }

[profiles.full]
seeds = 20
setting = { rounds = 30 }

[[panels]]
form = "sweep"
title = "Cost of a round"
quantity = "objective"
x = "session"

[[claims]]
text = "local search keeps every limit in nine rounds of ten"
quantity = "feasible_share"
policy = "local-search"
above = 0.9
ours = true
""")

# %%
# A cluster
# ---------
#
# A scheduler and two workers on this machine, started as on any other: ``dask scheduler`` and
# ``dask worker ADDRESS``.

import json
import subprocess
import sys
import time


def start(*arguments):
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return subprocess.Popen(
        [sys.executable, "-m", "dask", *arguments], cwd=folder, **quiet
    )


place = folder / "scheduler.json"
here = ("--no-dashboard", "--host", "127.0.0.1")
scheduler = start(
    "scheduler", *here, "--port", "0", "--scheduler-file", str(place)
)
while not place.exists():
    time.sleep(0.1)
address = json.loads(place.read_text())["address"]
workers = start("worker", address, *here, "--nworkers", "2", "--nthreads", "1")

# %%
# The sweep
# ---------

command = [
    "experiment",
    "run",
    "sessions.toml",
    "--cluster",
    address,
    "--out",
    "results",
]
done = subprocess.run(
    [sys.executable, "-m", "stagewise", *command],
    cwd=folder,
    capture_output=True,
    text=True,
)
for process in (workers, scheduler):
    process.terminate()
    process.wait()
print(f"exit status {done.returncode}")
print(done.stderr)

# %%
# The same command again would run nothing: the result of a cell is kept under a hash of its inputs
# and of the code that decides it. After Ctrl-C, or when a worker was lost, it goes on.
#
# What came out
# -------------

print((folder / "results" / "sessions" / "table.md").read_text())

# %%

import matplotlib.pyplot as plt

picture = plt.imread(folder / "results" / "sessions" / "picture.png")
figure = plt.figure(figsize=(7.5, 7.5 * picture.shape[0] / picture.shape[1]))
axes = figure.add_axes((0, 0, 1, 1))
axes.imshow(picture)
axes.axis("off")
plt.show()

# %%
# Two seeds decide little: intervals are wide, and the page says so. ``--profile full`` has twenty.
# All fields of an experiment's file: :doc:`/experiments`.
