"""Designs F and H without processes: the same model as the simulator, and a fate for every update."""

import contextlib

import msgspec
import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs the extra 'deploy'")
pytest.importorskip("torch")

from deploy_cases import TASK, Clock, fates, largest_difference, small_system
from fake_post import FakePost, changed

from stagewise.deploy.apps import client_app, edge_app
from stagewise.deploy.edge_rounds import Time
from stagewise.deploy.flat import Flat
from stagewise.deploy.hierarchical import Hierarchical
from stagewise.deploy.in_process import InProcess
from stagewise.deploy.messages import (
    EdgeAnswer,
    Here,
    Update,
    model_of,
    pack,
    read,
)
from stagewise.deploy.transport import Order
from stagewise.errors import StagewiseError
from stagewise.training import TrainingTeam, train_client

SYSTEM = small_system(clients=4)
CLIENTS, EDGES = SYSTEM.clients.ids, SYSTEM.edges.ids
GROUPS = {EDGES[0]: CLIENTS[:1], EDGES[1]: CLIENTS[1:]}
ALL = {(client, step) for client in CLIENTS for step in range(SYSTEM.edge_rounds)}


@pytest.fixture(scope="module")
def team():
    with TrainingTeam(TASK.task(SYSTEM)) as team:
        yield team


class Nodes:
    """A transport of either design over apps in this process; `posts` has a post for each SuperLink."""

    def __init__(self, design, task):
        self.clock = Clock()
        time = Time(self.clock, self.clock.wait)
        apps = {client: client_app.make_app(client, trainer(task, client)) for client in CLIENTS}
        if design == "F":
            self.posts = [FakePost(apps, self.clock)]
            self.transport = Flat(SYSTEM, self.posts[0], time)
            return
        below = {edge: FakePost(apps, self.clock) for edge in EDGES}
        above = {
            edge: edge_app.make_app(edge, lambda post=post: contextlib.nullcontext(post), time)
            for edge, post in below.items()
        }
        self.cloud = FakePost(above, self.clock)
        self.posts = list(below.values())
        self.transport = Hierarchical(SYSTEM, self.cloud, time)

    def replace(self, client, change):
        """Let `change` turn the client's replies into others."""
        for post in self.posts:
            honest = post.apps[client]
            post.apps[client] = lambda message, context, honest=honest: change(
                honest(message, context)
            )


def trainer(task, client):
    index = SYSTEM.clients.index[client]
    return lambda step, weights: train_client(task, weights, index, step.round, step.edge_round)


@pytest.fixture(params=["F", "H"])
def nodes(request, team):
    return Nodes(request.param, team.task)


def order(team, round_index=0, groups=GROUPS, deadline_s=60.0):
    return Order(round_index, team.initial_weights(), groups, deadline_s)


def test_the_model_is_the_simulators(nodes, team):
    simulator, weights = InProcess(SYSTEM, team), team.initial_weights()
    for round_index in range(3):
        expected = simulator.train_round(Order(round_index, weights, GROUPS, 60.0))
        outcome = nodes.transport.train_round(Order(round_index, weights, GROUPS, 60.0))
        assert largest_difference(outcome.weights, expected.weights) < 1e-6
        assert fates(outcome) == fates(expected) == dict.fromkeys(ALL, "counted")
        assert outcome.edges == expected.edges
        weights = outcome.weights
    assert largest_difference(weights, team.initial_weights()) > 1e-3


def test_one_client_is_the_teams(team):
    weights = team.initial_weights()
    alone = team.train_round(weights, [np.array([2])], 5)
    for step in range(SYSTEM.edge_rounds):
        weights = train_client(team.task, weights, 2, 5, step)
    assert largest_difference(weights, alone) < 1e-6
    with pytest.raises(StagewiseError, match="client = 9: must be from 0 to 3"):
        train_client(team.task, weights, 9, 0, 0)


def test_bytes_at_the_cloud_are_models(team):
    flat = Nodes("F", team.task).transport.train_round(order(team))
    tall = Nodes("H", team.task).transport.train_round(order(team))
    predicted = len(EDGES) / (len(CLIENTS) * SYSTEM.edge_rounds)
    for up_or_down in ("cloud_bytes_up", "cloud_bytes_down"):
        ratio = getattr(tall, up_or_down) / getattr(flat, up_or_down)
        assert ratio == pytest.approx(predicted, rel=0.2)
    model = sum(array.nbytes for array in team.initial_weights().values())
    assert flat.cloud_bytes_up == pytest.approx(len(ALL) * model, rel=0.1)


def test_who_is_there(nodes):
    nodes.posts[0].silent.add(CLIENTS[2])
    presence = nodes.transport.who_is_there(30.0)
    other = EDGES[1:] if len(nodes.posts) > 1 else ()
    assert presence.edges_of.get(CLIENTS[2], ()) == other
    assert presence.edges_of[CLIENTS[0]] == EDGES
    assert presence.edges == EDGES
    assert all(0 <= seconds <= 30 for seconds in presence.answer_s.values())


def test_an_impostor_is_not_there(team):
    nodes = Nodes("F", team.task)
    other = Here(kind="client", id=CLIENTS[1])
    nodes.replace(CLIENTS[0], lambda reply: changed(reply, pack(other)))
    assert set(nodes.transport.who_is_there(30.0).edges_of) == set(CLIENTS[1:])


def test_a_silent_client_is_late_and_the_others_count(nodes, team):
    for post in nodes.posts:
        post.silent.add(CLIENTS[3])
    outcome = nodes.transport.train_round(order(team))
    rest = {EDGES[0]: CLIENTS[:1], EDGES[1]: CLIENTS[1:3]}
    expected = InProcess(SYSTEM, team).train_round(order(team, groups=rest))
    assert largest_difference(outcome.weights, expected.weights) < 1e-6
    assert fates(outcome) == {
        key: "late" if key[0] == CLIENTS[3] else "counted" for key in sorted(ALL)
    }
    assert outcome.delay_s <= 61


def test_a_client_that_is_not_connected_is_lost(nodes, team):
    for post in nodes.posts:
        post.gone.add(CLIENTS[1])
    outcome = nodes.transport.train_round(order(team))
    assert {key for key, fate in fates(outcome).items() if fate == "lost"} == {
        (CLIENTS[1], 0),
        (CLIENTS[1], 1),
    }
    assert outcome.delay_s < 10


def test_a_client_that_was_late_may_count_again(team):
    nodes = Nodes("F", team.task)

    def delay(name, content):
        return 40.0 if name == CLIENTS[1] and nodes.clock() < 101 else 0.5

    nodes.posts[0].delay = delay
    outcome = nodes.transport.train_round(order(team))
    assert fates(outcome)[CLIENTS[1], 0] == "late"
    assert fates(outcome)[CLIENTS[1], 1] == "counted"


def test_an_answer_that_comes_twice_counts_once(nodes, team):
    for post in nodes.posts:
        post.twice.update(CLIENTS)
    outcome = nodes.transport.train_round(order(team))
    expected = InProcess(SYSTEM, team).train_round(order(team))
    assert fates(outcome) == dict.fromkeys(ALL, "counted")
    assert largest_difference(outcome.weights, expected.weights) < 1e-6


class SlowPost(FakePost):
    """Hands over what is there only after `stuck_s` more seconds."""

    stuck_s = 0.0

    def collect(self):
        answers = super().collect()
        if answers:
            self.clock.wait(self.stuck_s)
        return answers


def test_an_answer_that_is_handed_over_late_does_not_count(nodes, team):
    for post in nodes.posts:
        post.__class__, post.stuck_s = SlowPost, 200.0
    outcome = nodes.transport.train_round(order(team))
    assert set(fates(outcome).values()) <= {"late", "lost"}
    assert largest_difference(outcome.weights, team.initial_weights()) == 0
    assert nodes.transport.who_is_there(30.0).edges_of == {}


def test_a_model_of_an_edge_that_is_handed_over_late_does_not_count(team):
    nodes = Nodes("H", team.task)
    nodes.cloud.__class__, nodes.cloud.stuck_s = SlowPost, 200.0
    outcome = nodes.transport.train_round(order(team))
    assert [edge.fate for edge in outcome.edges] == ["late", "late"]
    assert largest_difference(outcome.weights, team.initial_weights()) == 0
    assert nodes.transport.who_is_there(30.0).edges == ()


def lying(**fields):
    """A reply to an order to train, in which the update says something else."""

    def reply(honest):
        if honest.metadata.message_type == "query":
            return honest
        update = msgspec.structs.replace(read(honest.content, Update), **fields)
        return changed(honest, pack(update, model_of(honest.content)))

    return reply


@pytest.mark.parametrize("train_s", [1e300, 86_400.0])
def test_a_client_cannot_say_that_it_trained_for_longer_than_it_had(nodes, team, train_s):
    nodes.replace(CLIENTS[2], lying(train_s=train_s))
    outcome = nodes.transport.train_round(order(team))
    assert fates(outcome) == dict.fromkeys(ALL, "counted")
    for report in outcome.clients:
        assert report.train_s <= report.round_trip_s <= outcome.delay_s


def test_an_edge_cannot_say_that_anything_took_longer_than_the_round(team):
    nodes = Nodes("H", team.task)
    change = tampered(
        reports=lambda reports: tuple(
            msgspec.structs.replace(report, train_s=1e300, round_trip_s=1e300) for report in reports
        )
    )
    honest = nodes.cloud.apps[EDGES[1]]
    nodes.cloud.apps[EDGES[1]] = lambda message, context: change(honest(message, context))
    outcome = nodes.transport.train_round(order(team))
    assert fates(outcome) == dict.fromkeys(ALL, "counted")
    assert all(max(report.train_s, report.round_trip_s) <= 60 for report in outcome.clients)

    def boasts(message, context):
        here = Here(kind="edge", id=EDGES[1], clients=dict.fromkeys(CLIENTS, 1e300))
        return changed(honest(message, context), pack(here))

    nodes.cloud.gone.add(EDGES[0])
    nodes.cloud.apps[EDGES[1]] = boasts
    assert nodes.transport.who_is_there(30.0).answer_s == dict.fromkeys(CLIENTS, 30.0)


def with_model(change):
    """A reply whose model is `change` of the honest one's."""

    def reply(honest):
        update = read(honest.content, Update)
        return changed(honest, pack(update, change(model_of(honest.content))))

    return reply


def with_update(**fields):
    def reply(honest):
        update = read(honest.content, Update)
        step = {name: getattr(update.step, name) for name in update.step.__struct_fields__}
        other = type(update.step)(**{**step, **fields})
        again = Update(step=other, train_s=update.train_s)
        return changed(honest, pack(again, model_of(honest.content)))

    return reply


def broken(honest):
    content = honest.content
    content["model"]["model"].data = b"\x00" * 40
    return changed(honest, content)


def first(weights):
    return min(weights)


FAULTS = {
    "NaN": (with_model(lambda w: {k: a * np.nan for k, a in w.items()}), "not finite"),
    "shape": (with_model(lambda w: {**w, first(w): w[first(w)][:1]}), "has the shape"),
    "dtype": (with_model(lambda w: {**w, first(w): w[first(w)].astype(float)}), "is of float64"),
    "missing": (with_model(lambda w: {k: w[k] for k in w if k != first(w)}), "is missing"),
    "extra": (with_model(lambda w: {**w, "x": np.zeros(2)}), "x is not part of the model"),
    "no model": (with_model(lambda w: None), "no model"),
    "another round": (with_update(round=7), "answers to another order"),
    "another client": (with_update(client=CLIENTS[0]), "answers to another order"),
    "no update": (lambda reply: changed(reply, pack(Here(kind="client", id="x"))), "must be a"),
    "broken": (broken, "cannot be read"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_what_is_no_update_is_rejected_and_named(nodes, team, name):
    change, reason = FAULTS[name]
    nodes.replace(CLIENTS[2], change)
    outcome = nodes.transport.train_round(order(team))
    rest = {EDGES[0]: CLIENTS[:1], EDGES[1]: (CLIENTS[1], CLIENTS[3])}
    expected = InProcess(SYSTEM, team).train_round(order(team, groups=rest))
    assert largest_difference(outcome.weights, expected.weights) < 1e-6
    wrong = [report for report in outcome.clients if report.client == CLIENTS[2]]
    assert [report.fate for report in wrong] == ["rejected", "rejected"]
    assert all(reason in report.reason for report in wrong)
    assert sum(fate == "counted" for fate in fates(outcome).values()) == 6


def test_a_client_that_raises_is_rejected(nodes, team):
    def fail(reply):
        raise RuntimeError("out of memory")

    nodes.replace(CLIENTS[0], fail)
    outcome = nodes.transport.train_round(order(team))
    assert fates(outcome)[CLIENTS[0], 0] == "rejected"
    assert "out of memory" in outcome.clients[0].reason
    assert outcome.edges[0].fate == "lost"
    assert outcome.edges[0].data == 0


def test_diverged_training_is_rejected(team):
    nodes = Nodes("F", team.task)

    def diverges(step, weights):
        raise StagewiseError("client 0: the loss is nan")

    nodes.posts[0].apps[CLIENTS[0]] = client_app.make_app(CLIENTS[0], diverges)
    outcome = nodes.transport.train_round(order(team))
    assert outcome.clients[0].fate == "rejected"
    assert outcome.clients[0].reason == "client 0: the loss is nan"


def test_where_nothing_counts_the_model_stays(nodes, team):
    for post in nodes.posts:
        post.silent.update(CLIENTS)
    outcome = nodes.transport.train_round(order(team))
    assert largest_difference(outcome.weights, team.initial_weights()) == 0
    assert {edge.fate for edge in outcome.edges} == {"lost"}
    assert set(fates(outcome).values()) == {"late"}
    nobody = nodes.transport.train_round(order(team, groups={}))
    assert largest_difference(nobody.weights, team.initial_weights()) == 0


@pytest.mark.parametrize(("how", "fate"), [("silent", "late"), ("gone", "lost")])
def test_an_edge_that_fails_takes_its_updates_with_it(team, how, fate):
    nodes = Nodes("H", team.task)
    getattr(nodes.cloud, how).add(EDGES[1])
    outcome = nodes.transport.train_round(order(team))
    alone = {EDGES[0]: GROUPS[EDGES[0]]}
    expected = InProcess(SYSTEM, team).train_round(order(team, groups=alone))
    assert largest_difference(outcome.weights, expected.weights) < 1e-6
    assert [edge.fate for edge in outcome.edges] == ["counted", fate]
    assert set(fates(outcome)) == ALL
    assert {key for key, f in fates(outcome).items() if f == "lost"} == {
        (client, step) for client in CLIENTS[1:] for step in range(2)
    }


def tampered(**fields):
    def change(reply):
        if reply.metadata.message_type == "query":
            return reply
        said = read(reply.content, EdgeAnswer)
        own = {name: getattr(said, name) for name in said.__struct_fields__}
        answer = EdgeAnswer(**{**own, **{name: new(own[name]) for name, new in fields.items()}})
        return changed(reply, pack(answer, model_of(reply.content)))

    return change


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"data": lambda data: data + 1000}, "its reports make it"),
        ({"reports": lambda reports: reports[1:]}, "not one for each client"),
        ({"reports": lambda reports: (*reports, reports[0])}, "not one for each client"),
        ({"round": lambda number: number + 1}, "answers for round 1"),
    ],
)
def test_an_edge_that_does_not_add_up_is_rejected(team, fields, reason):
    nodes = Nodes("H", team.task)
    honest, change = nodes.cloud.apps[EDGES[1]], tampered(**fields)
    nodes.cloud.apps[EDGES[1]] = lambda message, context: change(honest(message, context))
    outcome = nodes.transport.train_round(order(team))
    assert outcome.edges[1].fate == "rejected"
    assert reason in outcome.edges[1].reason
    assert set(fates(outcome)) == ALL
