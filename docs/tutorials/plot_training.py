"""
Training, resuming, reporting
=============================

A run trains a real model over clients, edges and cloud while a policy decides who trains where.
It can be killed at any moment and goes on as if nothing had happened, to the last bit of the
model.
"""

# %%
# Train
# -----
#
# The data set ``digits`` (1,442 small images) comes with scikit-learn and takes seconds.

import tempfile
from pathlib import Path

import stagewise

folder = Path(tempfile.mkdtemp())
run = stagewise.simulate(
    dataset="digits", policy="pool", rounds=12, seed=0, out=folder / "pool"
)
run

# %%
# ``run.rounds`` is a data frame with a row for each round.

run.rounds[
    [
        "accuracy",
        "loss",
        "objective",
        "delay_s",
        "energy_j",
        "clients",
        "feasible",
    ]
].round(3)

# %%
# Kill it
# -------
#
# The same run as a command, in a process of its own, killed (``SIGKILL``) while it writes its
# third round.

import subprocess
import sys
import time

killed = folder / "killed"
words = "simulate --dataset digits --policy pool --rounds 12 --seed 0 --out"
command = [sys.executable, "-m", "stagewise", *words.split(), str(killed)]
process = subprocess.Popen(
    command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
)
lines = killed / "rounds.jsonl"
while process.poll() is None and (
    not lines.exists() or lines.read_text().count("\n") < 3
):
    time.sleep(0.02)
process.kill()
process.wait()
interrupted = stagewise.load_run(killed)
interrupted

# %%
# Go on
# -----
#
# ``resume`` (or ``stagewise resume killed``) goes on after the last complete round.

import numpy as np

resumed = stagewise.resume(killed)
same = all(
    np.array_equal(resumed.weights[name], values)
    for name, values in run.weights.items()
)
print(
    f"{len(interrupted.records)} rounds before the kill, {len(resumed.records)} in the end"
)
print(f"the model equals that of the run that was never killed: {same}")

# %%
# Compare policies
# ----------------

import matplotlib.pyplot as plt

baseline = stagewise.simulate(
    dataset="digits", policy="fedcs", rounds=12, seed=0, out=folder / "fedcs"
)

figure, (left, right) = plt.subplots(
    1, 2, sharey=True, figsize=(7.5, 3.3), layout="constrained"
)
for each, colour in ((run, "#1b6ca8"), (baseline, "#b0402a")):
    left.plot(
        each.rounds["round"] + 1,
        each.rounds["accuracy"],
        color=colour,
        label=each.name,
    )
    right.plot(
        each.rounds["objective"].cumsum(),
        each.rounds["accuracy"],
        color=colour,
    )
left.set(xlabel="round", ylabel="test accuracy", ylim=(0, 1))
right.set(xlabel="what the rounds have cost so far")
left.legend(frameon=False, loc="lower right")
plt.show()

# %%
# Report
# ------
#
# One page without references to the network, with tables and pictures of all runs: ``stagewise
# report pool fedcs -o report.html``.

command = [sys.executable, "-m", "stagewise"]
words = "report pool fedcs -o report.html".split()
report = subprocess.run(
    [*command, *words], cwd=folder, capture_output=True, text=True, check=True
)
print(
    f"report.html has {(folder / 'report.html').stat().st_size / 1000:.0f} kB"
)

# %%
# And because nothing is taken on trust, ``stagewise check-run`` recomputes decisions and verifies
# the digests of every file of a run:

checked = subprocess.run(
    [*command, "check-run", str(killed)], capture_output=True, text=True
)
print(checked.stdout, f"exit status {checked.returncode}")

# %%
# What is in the folder of a run, and every option: :doc:`/simulator`.
