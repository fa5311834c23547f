"""Designs F and H without processes: the same model as the simulator, and a fate for every update."""

import math
import re
from dataclasses import replace

import msgspec
import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs the extra 'deploy'")
pytest.importorskip("torch")

from deploy_cases import TASK, ManualClock, fates, largest_difference, same_figures, small_system
from fake_channel import FakeChannel, changed

from attacks import AttackedTrainer, sign_flipped
from stagewise.deploy.apps import client_app, edge_app
from stagewise.deploy.exchange import RoundOrder, update_figures
from stagewise.deploy.flat import Flat
from stagewise.deploy.hierarchical import Hierarchical
from stagewise.deploy.in_process import InProcess
from stagewise.deploy.messages import (
    ClientReply,
    EdgeNote,
    EdgeReply,
    model_of,
    pack,
    read,
)
from stagewise.errors import StagewiseError
from stagewise.robust.rules import AGGREGATORS, judges
from stagewise.runs.defence import Defence, SeenUpdate
from stagewise.training import Trainer, train_client
from stagewise.world.rounds import Round

SYSTEM = small_system(clients=4)
CLIENTS, EDGES = SYSTEM.clients.ids, SYSTEM.edges.ids
GROUPS = {EDGES[0]: CLIENTS[:1], EDGES[1]: CLIENTS[1:]}
ALL = {(client, step) for client in CLIENTS for step in range(SYSTEM.edge_rounds)}


@pytest.fixture(scope="module")
def trainer():
    with Trainer(TASK.task(SYSTEM)) as trainer:
        yield trainer


class Nodes:
    """A transport of either design over apps in this process; `channels` are those of the SuperLinks."""

    def __init__(self, design, task):
        self.clock, self.counted = ManualClock(), []
        apps = {client: client_app.make_app(client, training(task, client)) for client in CLIENTS}
        if design == "F":
            self.channels = [FakeChannel(apps, self.clock)]
            self.transport = Flat(SYSTEM, self.channels[0])
            return
        below = {edge: FakeChannel(apps, self.clock) for edge in EDGES}
        above = {
            edge: edge_app.make_app(edge, lambda channel=channel: channel, self.count)
            for edge, channel in below.items()
        }
        self.cloud = FakeChannel(above, self.clock)
        self.cloud.notes = {
            edge: lambda channel=channel: edge_app.note_of(channel.present())
            for edge, channel in below.items()
        }
        self.channels = list(below.values())
        self.transport = Hierarchical(SYSTEM, self.cloud)

    def count(self, reports, seconds):
        """What the edges count."""
        assert seconds >= 0
        self.counted += reports

    def replace(self, client, change):
        """Let `change` turn the client's replies into others."""
        for channel in self.channels:
            honest = channel.apps[client]
            channel.apps[client] = lambda message, context, honest=honest: change(
                honest(message, context)
            )


def training(task, client):
    """What `Client.train` does, without reading the data for each client."""
    index = SYSTEM.clients.index[client]

    def train(order, weights):
        place = order.round, order.edge_round
        trained, figures = train_client(task, weights, index, *place)
        losses = figures.loss_before.item(), figures.loss_after.item()
        return client_app.TrainedModel(trained, *losses)

    return train


@pytest.fixture(params=["F", "H"])
def nodes(request, trainer):
    return Nodes(request.param, trainer.task)


def order(trainer, round_index=0, groups=GROUPS, deadline_s=60.0):
    return RoundOrder(round_index, trainer.initial_weights(), groups, deadline_s)


def test_the_model_is_the_simulators(nodes, trainer):
    simulator, weights = InProcess(SYSTEM, trainer), trainer.initial_weights()
    for round_index in range(3):
        expected = simulator.train_round(RoundOrder(round_index, weights, GROUPS, 60.0))
        trained = nodes.transport.train_round(RoundOrder(round_index, weights, GROUPS, 60.0))
        assert largest_difference(trained.weights, expected.weights) < 1e-6
        assert fates(trained) == fates(expected) == dict.fromkeys(ALL, "counted")
        assert trained.edges == expected.edges
        same_figures(trained, expected)
        told = {(r.client, r.edge_round, r.fate) for r in nodes.counted}
        at_edges = ALL if isinstance(nodes.transport, Hierarchical) else ()
        assert told == {(*key, "counted") for key in at_edges}
        nodes.counted.clear()
        weights = trained.weights
    assert largest_difference(weights, trainer.initial_weights()) > 1e-3


@pytest.mark.parametrize("weights", [(1.0, 0.0), (0.25, 1.0), (3.0, 7.0)])
def test_the_model_is_the_simulators_with_weights_of_edges(nodes, trainer, weights):
    start, by_edge = trainer.initial_weights(), dict(zip(EDGES, weights, strict=True))
    groups = [np.array([SYSTEM.clients.index[c] for c in members]) for members in GROUPS.values()]
    shares = [w * SYSTEM.clients.data[g].sum() for w, g in zip(weights, groups, strict=True)]
    expected, _ = trainer.train_round(start, groups, 0, edge_weights=np.array(shares))
    plain, _ = trainer.train_round(start, groups, 0)
    assert largest_difference(plain, expected) > 1e-4
    weighted = replace(order(trainer), edge_weights=by_edge)
    for transport in (nodes.transport, InProcess(SYSTEM, trainer)):
        trained = transport.train_round(weighted)
        assert largest_difference(trained.weights, expected) < 1e-6
        assert set(fates(trained).values()) == {"counted"}


def test_the_model_is_the_simulators_with_weights_of_clients(nodes, trainer):
    start, weights = trainer.initial_weights(), np.array([0.2, 5.0, 1.0, 3.0])
    groups = [np.array([SYSTEM.clients.index[c] for c in members]) for members in GROUPS.values()]
    expected, _ = trainer.train_round(start, groups, 0, client_weights=weights)
    plain, _ = trainer.train_round(start, groups, 0)
    assert largest_difference(plain, expected) > 1e-4
    named = {client: float(weights[SYSTEM.clients.index[client]]) for client in CLIENTS}
    weighted = replace(order(trainer), client_weights=named)
    for transport in (nodes.transport, InProcess(SYSTEM, trainer)):
        trained = transport.train_round(weighted)
        assert largest_difference(trained.weights, expected) < 1e-6
        assert set(fates(trained).values()) == {"counted"}


def test_an_edge_that_does_not_count_is_no_substitute_for_one_that_failed(trainer):
    nodes = Nodes("H", trainer.task)
    nodes.cloud.gone.add(EDGES[0])
    weighted = replace(order(trainer), edge_weights={EDGES[0]: 1.0, EDGES[1]: 0.0})
    trained = nodes.transport.train_round(weighted)
    assert largest_difference(trained.weights, trainer.initial_weights()) == 0


def test_one_client_is_the_trainers(trainer):
    weights = trainer.initial_weights()
    alone, _ = trainer.train_round(weights, [np.array([2])], 5)
    for step in range(SYSTEM.edge_rounds):
        weights, _ = train_client(trainer.task, weights, 2, 5, step)
    assert largest_difference(weights, alone) < 1e-6
    with pytest.raises(StagewiseError, match="client = 9: must be from 0 to 3"):
        train_client(trainer.task, weights, 9, 0, 0)


def test_bytes_at_the_cloud_are_models(trainer):
    flat = Nodes("F", trainer.task).transport.train_round(order(trainer))
    tall = Nodes("H", trainer.task).transport.train_round(order(trainer))
    predicted = len(EDGES) / (len(CLIENTS) * SYSTEM.edge_rounds)
    for up_or_down in ("cloud_bytes_up", "cloud_bytes_down"):
        ratio = getattr(tall, up_or_down) / getattr(flat, up_or_down)
        assert ratio == pytest.approx(predicted, rel=0.2)
    model = sum(array.nbytes for array in trainer.initial_weights().values())
    assert flat.cloud_bytes_up == pytest.approx(len(ALL) * model, rel=0.1)


def test_roll_call(nodes):
    nodes.channels[0].gone.add(CLIENTS[2])
    presence = nodes.transport.roll_call(30.0)
    other = EDGES[1:] if len(nodes.channels) > 1 else ()
    assert presence.edges_of.get(CLIENTS[2], ()) == other
    assert presence.edges_of[CLIENTS[0]] == EDGES
    assert presence.edges == EDGES
    assert presence.answer_s == dict.fromkeys(presence.edges_of, 0.0)
    assert nodes.clock() == 100.0


def test_who_was_there_a_moment_ago_is_waited_for(nodes):
    """A node is between two requests for a moment; one that is gone costs a second, once."""
    top = nodes.channels[0] if len(nodes.channels) == 1 else nodes.cloud
    first = next(iter(top.apps))
    nodes.transport.roll_call(30.0)
    top.gone.add(first)
    wait = nodes.clock.wait

    def come_back(seconds):
        wait(seconds)
        if nodes.clock() > 100.3:
            top.gone.discard(first)

    nodes.clock.wait = come_back
    again = nodes.transport.roll_call(30.0)
    assert set(again.edges_of) == set(CLIENTS)
    assert 0.3 <= nodes.clock() - 100 < 0.5
    nodes.clock.wait = wait
    top.gone.add(first)
    began = nodes.clock()
    without = nodes.transport.roll_call(30.0)
    assert first not in (without.edges_of if top is nodes.channels[0] else without.edges)
    assert 1.0 <= nodes.clock() - began < 1.2
    began = nodes.clock()
    nodes.transport.roll_call(30.0)
    assert nodes.clock() == began


@pytest.mark.parametrize("note", ["", "no JSON", "[]", '{"clients": [1]}', '{"clients": ["x"]}'])
def test_an_edge_that_says_nonsense_reaches_nobody(trainer, note):
    nodes = Nodes("H", trainer.task)
    nodes.cloud.notes[EDGES[0]] = lambda: note
    presence = nodes.transport.roll_call(30.0)
    assert presence.edges == EDGES
    assert set(presence.edges_of.values()) == {(EDGES[1],)}


@pytest.mark.fault(
    "A client is too slow", "its update is late; the round ends at its deadline without it"
)
def test_a_silent_client_is_late_and_the_others_count(nodes, trainer):
    for channel in nodes.channels:
        channel.silent.add(CLIENTS[3])
    trained = nodes.transport.train_round(order(trainer))
    rest = {EDGES[0]: CLIENTS[:1], EDGES[1]: CLIENTS[1:3]}
    expected = InProcess(SYSTEM, trainer).train_round(order(trainer, groups=rest))
    assert largest_difference(trained.weights, expected.weights) < 1e-6
    assert fates(trained) == {
        key: "late" if key[0] == CLIENTS[3] else "counted" for key in sorted(ALL)
    }
    assert trained.delay_s <= 61


def test_a_client_that_is_not_connected_is_lost(nodes, trainer):
    for channel in nodes.channels:
        channel.gone.add(CLIENTS[1])
    trained = nodes.transport.train_round(order(trainer))
    assert {key for key, fate in fates(trained).items() if fate == "lost"} == {
        (CLIENTS[1], 0),
        (CLIENTS[1], 1),
    }
    assert trained.delay_s < 10


def test_a_client_that_was_late_may_count_again(trainer):
    nodes = Nodes("F", trainer.task)

    def delay(name, content):
        return 40.0 if name == CLIENTS[1] and nodes.clock() < 101 else 0.5

    nodes.channels[0].delay = delay
    trained = nodes.transport.train_round(order(trainer))
    assert fates(trained)[CLIENTS[1], 0] == "late"
    assert fates(trained)[CLIENTS[1], 1] == "counted"


@pytest.mark.fault("A network delivers an update twice", "it counts once")
def test_an_answer_that_comes_twice_counts_once(nodes, trainer):
    for channel in nodes.channels:
        channel.twice.update(CLIENTS)
    trained = nodes.transport.train_round(order(trainer))
    expected = InProcess(SYSTEM, trainer).train_round(order(trainer))
    assert fates(trained) == dict.fromkeys(ALL, "counted")
    assert largest_difference(trained.weights, expected.weights) < 1e-6


class SlowChannel(FakeChannel):
    """Hands over what is there only after `stuck_s` more seconds."""

    stuck_s = 0.0

    def receive(self):
        replies = super().receive()
        if replies:
            self.clock.wait(self.stuck_s)
        return replies


def test_an_answer_that_is_handed_over_late_does_not_count(nodes, trainer):
    for channel in nodes.channels:
        channel.__class__, channel.stuck_s = SlowChannel, 200.0
    trained = nodes.transport.train_round(order(trainer))
    assert set(fates(trained).values()) <= {"late", "lost"}
    assert largest_difference(trained.weights, trainer.initial_weights()) == 0


def test_a_model_of_an_edge_that_is_handed_over_late_does_not_count(trainer):
    nodes = Nodes("H", trainer.task)
    nodes.cloud.__class__, nodes.cloud.stuck_s = SlowChannel, 200.0
    trained = nodes.transport.train_round(order(trainer))
    assert [edge.fate for edge in trained.edges] == ["late", "late"]
    assert largest_difference(trained.weights, trainer.initial_weights()) == 0


def lying(**fields):
    """A reply to an order to train, in which the update says something else."""

    def reply(honest):
        update = msgspec.structs.replace(read(honest.content, ClientReply), **fields)
        return changed(honest, pack(update, model_of(honest.content)))

    return reply


@pytest.mark.parametrize("loss", [None, math.nan, math.inf, -math.inf])
def test_a_loss_that_is_no_finite_number_is_not_known(nodes, trainer, loss):
    nodes.replace(CLIENTS[2], lying(loss_before=loss, loss_after=loss))
    trained = nodes.transport.train_round(order(trainer))
    assert fates(trained) == dict.fromkeys(ALL, "counted")
    for report in trained.clients:
        unknown = report.client == CLIENTS[2]
        assert (report.loss_before is None) == (report.loss_after is None) == unknown
        assert report.update_norm > 0  # the receiver finds it itself


@pytest.mark.parametrize("loss", ["NaN", "1e999", '"low"', "[1]", "true"])
def test_a_loss_that_is_no_number_is_rejected(nodes, trainer, loss):
    def change(honest):
        content = honest.content
        text = content["body"]["json"]
        content["body"]["json"] = re.sub('"loss_after":[^,}]+', f'"loss_after":{loss}', text)
        return changed(honest, content)

    nodes.replace(CLIENTS[2], change)
    trained = nodes.transport.train_round(order(trainer))
    wrong = [report for report in trained.clients if report.client == CLIENTS[2]]
    assert [report.fate for report in wrong] == ["rejected", "rejected"]
    assert all("must be a ClientReply" in report.reason for report in wrong)
    assert all(report.loss_before is None for report in wrong)


def test_the_norm_of_an_update_is_that_of_the_model_that_came(nodes, trainer):
    """Whatever the client says of it; a huge one is not known, and nothing overflows."""
    nodes.replace(CLIENTS[0], with_model(lambda w: {k: a * 0 + 3 for k, a in w.items()}))
    weights = {name: array * 0 for name, array in trainer.initial_weights().items()}
    numbers = sum(array.size for array in weights.values())
    trained = nodes.transport.train_round(RoundOrder(0, weights, GROUPS, 60.0))
    norms = [report.update_norm for report in trained.clients if report.client == CLIENTS[0]]
    assert norms == pytest.approx([3 * math.sqrt(numbers), 0.0])


@pytest.mark.parametrize("train_s", [1e300, 86_400.0])
def test_a_client_cannot_say_that_it_trained_for_longer_than_it_had(nodes, trainer, train_s):
    nodes.replace(CLIENTS[2], lying(train_s=train_s))
    trained = nodes.transport.train_round(order(trainer))
    assert fates(trained) == dict.fromkeys(ALL, "counted")
    for report in trained.clients:
        assert report.train_s <= report.round_trip_s <= trained.delay_s


def test_an_edge_cannot_say_that_anything_took_longer_than_the_round(trainer):
    nodes = Nodes("H", trainer.task)
    change = tampered(
        reports=lambda reports: tuple(
            replace(report, train_s=1e300, round_trip_s=1e300) for report in reports
        )
    )
    honest = nodes.cloud.apps[EDGES[1]]
    nodes.cloud.apps[EDGES[1]] = lambda message, context: change(honest(message, context))
    trained = nodes.transport.train_round(order(trainer))
    assert fates(trained) == dict.fromkeys(ALL, "counted")
    assert all(max(report.train_s, report.round_trip_s) <= 60 for report in trained.clients)


@pytest.mark.parametrize("size", [2**63, 2**40 + 1])
def test_an_edge_that_reports_bytes_beyond_all_models_is_rejected(trainer, size):
    nodes = Nodes("H", trainer.task)
    change = tampered(
        reports=lambda reports: tuple(replace(report, bytes_up=size) for report in reports)
    )
    honest = nodes.cloud.apps[EDGES[1]]
    nodes.cloud.apps[EDGES[1]] = lambda message, context: change(honest(message, context))
    trained = nodes.transport.train_round(order(trainer))
    assert [edge.fate for edge in trained.edges] == ["counted", "rejected"]
    assert "bytes_up" in trained.edges[1].reason
    assert max(report.bytes_up for report in trained.clients) < 2**40


def with_model(change):
    """A reply whose model is `change` of the honest one's."""

    def reply(honest):
        update = read(honest.content, ClientReply)
        return changed(honest, pack(update, change(model_of(honest.content))))

    return reply


def with_update(**fields):
    def reply(honest):
        update = read(honest.content, ClientReply)
        other = msgspec.structs.replace(update.order, **fields)
        again = ClientReply(client=update.client, order=other, train_s=update.train_s)
        return changed(honest, pack(again, model_of(honest.content)))

    return reply


def broken(honest):
    content = honest.content
    content["body"]["model"] = b"\x00" * 40
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
    "another client": (lying(client=CLIENTS[0]), f"answers as '{CLIENTS[0]}'"),
    "no update": (lambda reply: changed(reply, pack(EdgeNote())), "must be a"),
    "broken": (broken, "cannot be read"),
}


@pytest.mark.fault(
    "A client sends NaN, infinity, a wrong name, shape or type",
    "it is rejected by name and reason; the model is that of the others",
)
@pytest.mark.parametrize("name", FAULTS)
def test_what_is_no_update_is_rejected_and_named(nodes, trainer, name):
    change, reason = FAULTS[name]
    nodes.replace(CLIENTS[2], change)
    trained = nodes.transport.train_round(order(trainer))
    rest = {EDGES[0]: CLIENTS[:1], EDGES[1]: (CLIENTS[1], CLIENTS[3])}
    expected = InProcess(SYSTEM, trainer).train_round(order(trainer, groups=rest))
    assert largest_difference(trained.weights, expected.weights) < 1e-6
    wrong = [report for report in trained.clients if report.client == CLIENTS[2]]
    assert [report.fate for report in wrong] == ["rejected", "rejected"]
    assert all(reason in report.reason for report in wrong)
    assert sum(fate == "counted" for fate in fates(trained).values()) == 6


def test_a_client_that_raises_is_rejected(nodes, trainer):
    def fail(reply):
        raise RuntimeError("out of memory")

    nodes.replace(CLIENTS[0], fail)
    trained = nodes.transport.train_round(order(trainer))
    assert fates(trained)[CLIENTS[0], 0] == "rejected"
    assert "out of memory" in trained.clients[0].reason
    assert trained.edges[0].fate == "lost"
    assert trained.edges[0].data == 0


def test_diverged_training_is_rejected(trainer):
    nodes = Nodes("F", trainer.task)

    def diverges(order, weights):
        raise StagewiseError("client 0: the loss is nan")

    nodes.channels[0].apps[CLIENTS[0]] = client_app.make_app(CLIENTS[0], diverges)
    trained = nodes.transport.train_round(order(trainer))
    assert trained.clients[0].fate == "rejected"
    assert trained.clients[0].reason == "client 0: the loss is nan"


def test_where_nothing_counts_the_model_stays(nodes, trainer):
    for channel in nodes.channels:
        channel.silent.update(CLIENTS)
    trained = nodes.transport.train_round(order(trainer))
    assert largest_difference(trained.weights, trainer.initial_weights()) == 0
    assert {edge.fate for edge in trained.edges} == {"lost"}
    assert set(fates(trained).values()) == {"late"}
    nobody = nodes.transport.train_round(order(trainer, groups={}))
    assert largest_difference(nobody.weights, trainer.initial_weights()) == 0


@pytest.mark.fault(
    "An edge fails in a round", "its clients' updates are lost; the other edges' models count"
)
@pytest.mark.parametrize(("how", "fate"), [("silent", "late"), ("gone", "lost")])
def test_an_edge_that_fails_takes_its_updates_with_it(trainer, how, fate):
    nodes = Nodes("H", trainer.task)
    getattr(nodes.cloud, how).add(EDGES[1])
    trained = nodes.transport.train_round(order(trainer))
    alone = {EDGES[0]: GROUPS[EDGES[0]]}
    expected = InProcess(SYSTEM, trainer).train_round(order(trainer, groups=alone))
    assert largest_difference(trained.weights, expected.weights) < 1e-6
    assert [edge.fate for edge in trained.edges] == ["counted", fate]
    assert set(fates(trained)) == ALL
    assert {key for key, f in fates(trained).items() if f == "lost"} == {
        (client, step) for client in CLIENTS[1:] for step in range(2)
    }


def tampered(**fields):
    def change(reply):
        honest = read(reply.content, EdgeReply)
        own = {name: getattr(honest, name) for name in honest.__struct_fields__}
        answer = EdgeReply(**{**own, **{name: new(own[name]) for name, new in fields.items()}})
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
def test_an_edge_that_does_not_add_up_is_rejected(trainer, fields, reason):
    nodes = Nodes("H", trainer.task)
    honest, change = nodes.cloud.apps[EDGES[1]], tampered(**fields)
    nodes.cloud.apps[EDGES[1]] = lambda message, context: change(honest(message, context))
    trained = nodes.transport.train_round(order(trainer))
    assert trained.edges[1].fate == "rejected"
    assert reason in trained.edges[1].reason
    assert set(fates(trained)) == ALL


def wrong(attack):
    """A change of replies: the update in it becomes what `attack` makes of it."""

    def change(reply, before):
        trained, random = model_of(reply.content), np.random.default_rng(0)
        moved = {
            name: array + attack(trained[name] - array, random) for name, array in before.items()
        }
        return changed(reply, pack(read(reply.content, ClientReply), moved))

    return change


def attack_of(nodes, client, attack):
    """Let the client attack: it knows the model that it was sent."""
    for channel in nodes.channels:
        honest = channel.apps[client]

        def app(message, context, honest=honest):
            before = model_of(message.content)
            reply = honest(message, context)
            return reply if before is None else wrong(attack)(reply, before)

        channel.apps[client] = app


@pytest.mark.fault(
    "One client sends a finite update that is far too large",
    "it is rejected with its norm and the limit; the model is that of the others",
)
@pytest.mark.parametrize("aggregator", [one for one in AGGREGATORS if judges(one)])
@pytest.mark.parametrize(
    "client_weights", [None, dict(zip(CLIENTS, (0.3, 5.0, 2.0, 0.5), strict=True))]
)
def test_wrong_updates_are_refused_as_in_the_simulator(nodes, trainer, aggregator, client_weights):
    """In round 0, with nothing learned, and later by what was learned from it."""
    defence = Defence(SYSTEM, aggregator, 10)
    refuse_as_the_simulator(nodes, trainer, defence, scaled_much, "norm of", client_weights)


@pytest.mark.fault(
    "One client sends its update with the sign flipped",
    "it is rejected, since it raises biases of labels that the client has no samples of",
)
@pytest.mark.parametrize("aggregator", ["mean", "median"])
def test_what_no_training_gives_is_refused_as_in_the_simulator(nodes, trainer, aggregator):
    defence = Defence(SYSTEM, aggregator, 10, trainer.output_bias)
    refuse_as_the_simulator(
        nodes, trainer, defence, sign_flipped, "labels that it has no samples of"
    )


@pytest.mark.parametrize("design", ["F", "H"])
@pytest.mark.parametrize("with_biases", [False, True])
def test_numbers_near_the_largest_are_refused_as_in_the_simulator(design, with_biases):
    """The sum of such rises and the norm of such an update cannot be computed."""

    def nearly_infinite(update, random):
        return np.full_like(update, 1e308)

    task = replace(TASK.task(SYSTEM), dtype="float64")
    with Trainer(task) as trainer:
        defence = Defence(SYSTEM, "mean", 10, trainer.output_bias if with_biases else None)
        reason = "times what its steps" if with_biases else "norm of"
        refuse_as_the_simulator(Nodes(design, task), trainer, defence, nearly_infinite, reason)


def refuse_as_the_simulator(nodes, trainer, defence, attack, reason, client_weights=None):
    attacker, index = CLIENTS[2], SYSTEM.clients.index[CLIENTS[2]]
    attack_of(nodes, attacker, attack)
    weights = trainer.initial_weights()
    with AttackedTrainer(trainer.task, 1, attack, [index]) as attacked:
        simulator = InProcess(SYSTEM, attacked)
        for round_index in range(3):
            guard = defence.safeguards()
            given = RoundOrder(round_index, weights, GROUPS, 60.0, None, guard, client_weights)
            expected, trained = simulator.train_round(given), nodes.transport.train_round(given)
            assert largest_difference(trained.weights, expected.weights) < 1e-6
            refused = {key for key, fate in fates(trained).items() if fate != "counted"}
            assert refused == {(attacker, step) for step in range(SYSTEM.edge_rounds)}
            assert fates(trained) == fates(expected)
            assert trained.edges == expected.edges
            assert all(reason in r.reason for r in trained.clients if r.reason)
            for ours, theirs in zip(trained.clients, expected.clients, strict=True):
                assert ours.update_norm == pytest.approx(theirs.update_norm, rel=1e-4)
                assert ours.bias_rise == pytest.approx(theirs.bias_rise, abs=1e-4)
                assert ours.foreign_rise == pytest.approx(theirs.foreign_rise, abs=1e-4)
            seen = [
                SeenUpdate(
                    r.edge_round, EDGES.index(r.edge), CLIENTS.index(r.client), update_figures(r)
                )
                for r in trained.clients
            ]
            events = defence.observe(round_index, seen, {})
            assert {event.client for event in events} == {attacker}
            weights = trained.weights
    assert defence.safeguards().updates is not None
    everybody = Round(SYSTEM, np.ones(4, bool), 3)
    assert attacker not in defence.admitted(everybody).online_ids


def test_a_plain_mean_takes_a_wrong_update_as_in_the_simulator(nodes, trainer):
    attacker, index = CLIENTS[2], SYSTEM.clients.index[CLIENTS[2]]
    attack_of(nodes, attacker, sign_flipped)
    defence = Defence(SYSTEM, "plain-mean", 10, trainer.output_bias)
    with AttackedTrainer(trainer.task, 1, sign_flipped, [index]) as attacked:
        weights = trainer.initial_weights()
        given = RoundOrder(0, weights, GROUPS, 60.0, None, defence.safeguards())
        expected = InProcess(SYSTEM, attacked).train_round(given)
        trained = nodes.transport.train_round(given)
    assert largest_difference(trained.weights, expected.weights) < 1e-6
    assert set(fates(trained).values()) == {"counted"}


def scaled_much(update, random):
    return 1e6 * update


@pytest.mark.fault(
    "An edge sends a model that is far too large",
    "the cloud rejects it with its norm and the limit",
)
def test_an_edge_with_a_wrong_model_is_refused_by_the_cloud(nodes, trainer):
    """Alone at its edge, a client can only be compared with other edges."""
    attack_of(nodes, CLIENTS[0], scaled_much)
    trained = nodes.transport.train_round(order(trainer))
    assert [edge.fate for edge in trained.edges] == ["rejected", "counted"]
    assert {fate for (client, _), fate in fates(trained).items() if client == CLIENTS[0]} == {
        "lost"
    }
    groups = {EDGES[1]: GROUPS[EDGES[1]]}
    expected = nodes.transport.train_round(order(trainer, groups=groups))
    assert largest_difference(trained.weights, expected.weights) < 1e-6
