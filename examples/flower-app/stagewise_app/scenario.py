"""The system the policy decides about: 8 x 8 digits on clients that hold two to four labels each."""

from dataclasses import replace

from flwr.app import UserConfig

from stagewise.world.generate import Task, numeric
from stagewise.world.scenario import Limits, Scenario

MODEL_PARAMETERS = 64 * 32 + 32 + 32 * 10 + 10


def make_scenario(config: UserConfig) -> Scenario:
    """The same for the server and all clients: it depends on the run's configuration alone.

    With devices of your own you would write their sizes, speeds and links to a file instead, and use
    `stagewise.load_scenario` here.
    """
    task = Task(
        name="digits",
        labels=10,
        labels_per_client=(2, 4),
        data_range=(40, 100),
        sample_bits=64 * 8,
        model_bits=32 * MODEL_PARAMETERS,
    )
    made = numeric(
        clients=int(config["clients"]),
        edges=int(config["edges"]),
        seed=int(config["seed"]),
        task=task,
        limits=Limits(kld_max=0.3, data_min=250),
    )
    return replace(
        made,
        local_steps=int(config["local-steps"]),
        edge_rounds=int(config["edge-rounds"]),
    )
