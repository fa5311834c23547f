"""
Asking the planner from another program
=======================================

``stagewise serve`` is the planner as a service: any program that speaks HTTP and JSON asks it who
trains where. This page starts one, asks it with nothing but the standard library, then lets it
decide for a simulation.
"""

# sphinx_gallery_thumbnail_path = 'images/serve.png'

# %%
# Start the service
# -----------------
#
# On this machine it needs no token; on any other address it asks for TLS and tokens.

import json
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

folder = Path(tempfile.mkdtemp())
with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
server = f"http://127.0.0.1:{port}"
service = subprocess.Popen(
    [
        sys.executable,
        "-m",
        "stagewise",
        "serve",
        "--port",
        str(port),
        "--store",
        "planner.db",
    ],
    cwd=folder,
    stdout=subprocess.DEVNULL,
    stderr=subprocess.DEVNULL,
)


def ask(method, path, body=None):
    """The same request again until it is answered: each has one answer, however often it is sent."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    while True:
        request = urllib.request.Request(server + path, content, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.loads(answer.read())
        except urllib.error.HTTPError as error:
            if (
                error.headers["Retry-After"] is None
            ):  # a mistake, which is named
                return json.loads(error.read())
        except OSError:  # not there yet
            pass
        time.sleep(0.2)


# %%
# A federation
# ------------
#
# Send a scenario, name a policy.

import stagewise

scenario = stagewise.generate.numeric(clients=40, edges=2, seed=0)
stagewise.save_scenario(scenario, folder / "s.json")

sha256 = ask("POST", "/v1/scenarios", (folder / "s.json").read_bytes())[
    "sha256"
]
ask("PUT", "/v1/federations/phones", {"scenario": sha256, "policy": "pool"})

# %%
# Rounds
# ------
#
# Whoever runs the federation says who is online and gets the decision; afterwards it may tell
# what came of it.

for number, round_ in enumerate(
    stagewise.participation.bernoulli(scenario, rounds=5, seed=1)
):
    asked = {"round": number, "online": round_.online_ids}
    decision = ask("POST", "/v1/federations/phones/decisions", asked)
    ask(
        "PUT",
        f"/v1/federations/phones/outcomes/{number}",
        {"accuracy": 0.5 + 0.05 * number},
    )
    print(
        f"round {number}: {len(decision['assignment'])} of {len(round_.online_ids)} train, "
        f"cost {decision['objective']:.3f}, {decision['decision_ms']:.1f} ms"
    )

# %%
# The same question has the same answer, whether the reply was lost or the server was killed in
# between; another question under the same number is refused.

again = ask("POST", "/v1/federations/phones/decisions", asked)
print("the same line again:", again == decision)
print(
    ask(
        "POST",
        "/v1/federations/phones/decisions",
        {"round": 4, "online": ["c0"]},
    )
)

# %%
# What if?
# --------
#
# Nothing of this is kept: what would the last round cost with half of the data?

tried = ask(
    "POST",
    "/v1/federations/phones/try",
    {"round": 4, "limits": {"data_min": scenario.limits.data_min / 2}},
)
print(
    {key: tried["decision"][key] for key in ("objective", "feasible")}
    if "decision" in tried
    else tried
)

# %%
# From Python
# -----------
#
# ``stagewise.client.Federation`` is a policy like any other, so a service may decide for a
# simulation, a deployment or a Flower app: here its address stands where the name of a policy
# would.

run = stagewise.simulate(
    dataset="digits", policy=f"{server}/pool", rounds=4, seed=0
)
run.rounds[["accuracy", "objective", "clients", "decision_ms"]].round(3)

# %%
# End the service. All that was decided is in ``planner.db``, and would be there after a kill as
# well.

service.terminate()
service.wait()

# %%
# The whole API, tokens, PostgreSQL and the page for people: :doc:`/serve`.
