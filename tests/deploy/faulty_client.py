"""A client that misbehaves: NaN and a wrong shape in round 3, a long sleep in round 4."""

import time

import numpy as np

from stagewise.deploy.apps.client_app import Client, arguments, make_app
from stagewise.deploy.executor import serve
from stagewise.deploy.task import TaskFile

if __name__ == "__main__":
    given = arguments()
    client = Client(given.client, TaskFile.load(given.task), given.scenario)

    def train(step, weights):
        model = client.train(step, weights)
        if step.round == 3 and step.edge_round == 0:
            return {name: array * np.nan for name, array in model.items()}
        if step.round == 3:
            return {name: array[:1] for name, array in model.items()}
        if step.round == 4:
            time.sleep(150)
        return model

    serve(make_app(client.name, train), given.node, given.secret.read_bytes())
