"""A client that misbehaves: NaN and a wrong shape in round 3, silence in round 4."""

import threading

import numpy as np

from stagewise.deploy.apps.client_app import Client, arguments, make_app
from stagewise.deploy.node import ServerAddress, links_to, serve
from stagewise.deploy.task import TaskFile


def _not_finite(model):
    return {name: array * np.nan for name, array in model.items()}


def _cut_off(model):
    return {name: array[:1] for name, array in model.items()}


if __name__ == "__main__":
    given = arguments()
    client = Client(given.client, TaskFile.load(given.task), given.scenario)

    def train(order, weights):
        trained = client.train(order, weights)
        if order.round == 3:
            faulty = _not_finite if order.edge_round == 0 else _cut_off
            return trained._replace(weights=faulty(trained.weights))
        if order.round == 4:
            threading.Event().wait()  # for ever
        return trained

    servers = [ServerAddress.parse(text) for text in given.server]
    authority = given.root_certificates.read_bytes()
    serve(links_to(servers, authority, make_app(client.name, train)))
