"""Who is online in which round: models of clients that come and go."""

import numpy as np

from stagewise.errors import StagewiseError
from stagewise.randomness import generator
from stagewise.world.checks import finite, seed_number, whole
from stagewise.world.rounds import Round
from stagewise.world.scenario import FloatArray, Scenario
from stagewise.world.trace import Trace

LARGEST_ROUNDS = 1_000_000

TRACE_START_S = 300.0
"""The first minutes of the known traces, in which every device is available, are artificial."""


def bernoulli(scenario: Scenario, rounds: int, seed: int = 0) -> list[Round]:
    """Every client is online with its `online_probability`, independently of all else (Sec. V).

    Parameters
    ----------
    scenario
        Whose clients.
    rounds
        How many rounds; the first ones do not depend on how many follow.
    seed
        Of the draws.

    Raises
    ------
    StagewiseError
        If `rounds` or `seed` cannot be.

    Examples
    --------
    >>> from stagewise.world.generate import numeric
    >>> [int(round_.online.sum()) for round_ in bernoulli(numeric(clients=10, edges=1), 3)]
    [9, 7, 7]
    """
    _check(rounds, seed)
    probability = scenario.clients.online_probability
    return [
        Round(scenario, _uniform(scenario, seed, "bernoulli", g) < probability, g)
        for g in range(rounds)
    ]


def markov(
    scenario: Scenario, rounds: int, seed: int = 0, mean_session: float = 5.0
) -> list[Round]:
    """Every client stays online for some rounds and then away for some: a chain with two states.

    In every round, the first included, a client is online with its `online_probability` p. A time
    online lasts `mean_session` rounds in the mean. Where that is too short for p to be kept, since
    a client would have to be away for less than one round at a time, p counts for more: such a
    client (p / (1 - p) > mean_session) is away for single rounds and online for p / (1 - p) in the
    mean. A client with p = 1 is always online, and one with p = 0 never.

    Parameters
    ----------
    scenario
        Whose clients.
    rounds
        How many rounds; the first ones do not depend on how many follow.
    seed
        Of the draws.
    mean_session
        Rounds, at least 1.

    Raises
    ------
    StagewiseError
        If an argument cannot be.

    Examples
    --------
    >>> from stagewise.world.generate import numeric
    >>> [int(round_.online.sum()) for round_ in markov(numeric(clients=10, edges=1), 3)]
    [8, 7, 8]
    """
    _check(rounds, seed)
    finite("mean_session", mean_session, 1)
    leave, enter = markov_rates(scenario.clients.online_probability, mean_session)
    # The first round is drawn from the stationary distribution, so that all rounds are alike.
    chance, drawn = scenario.clients.online_probability, []
    for g in range(rounds):
        online = _uniform(scenario, seed, "markov", g) < chance
        drawn.append(Round(scenario, online, g))
        chance = np.where(online, 1 - leave, enter)
    return drawn


def markov_rates(probability: FloatArray, mean_session: float) -> tuple[FloatArray, FloatArray]:
    """The chances of going offline and of coming online from one round to the next.

    Parameters
    ----------
    probability : array of float, shape (clients,)
        How likely each client is to be online.
    mean_session : float
        How many rounds a time online lasts in the mean, at the least.

    Examples
    --------
    >>> import numpy as np, stagewise
    >>> stagewise.participation.markov_rates(np.array([0.5]), 4.0)
    (array([0.25]), array([0.25]))
    """
    always = probability == 1
    odds = np.divide(probability, 1 - probability, out=np.zeros_like(probability), where=~always)
    session = np.maximum(mean_session, odds)
    leave = np.where(always, 0.0, 1 / session)
    # Stationarity: p * leave = (1 - p) * enter. Rounding must not take it above 1.
    enter = np.where(always, 1.0, np.minimum(odds / session, 1.0))
    return leave, enter


def trace(
    scenario: Scenario,
    trace: Trace,
    rounds: int,
    seed: int = 0,
    round_seconds: float = 600.0,
    start_s: float = TRACE_START_S,
) -> list[Round]:
    """Every client follows a device of the trace, seen every `round_seconds` from `start_s` on.

    Devices are dealt to clients in a random order, and dealt again when there are more clients.
    What happened before `start_s` counts only through the state each device was left in. The
    clients' `online_probability` plays no part.

    Parameters
    ----------
    scenario
        Whose clients.
    trace
        What `load_trace` read.
    rounds
        How many rounds.
    seed
        Of the order in which devices are dealt.
    round_seconds, start_s
        The time from one round to the next, and that of the first.

    Raises
    ------
    StagewiseError
        If an argument cannot be, or the trace ends before the last round.

    Examples
    --------
    >>> from stagewise.world.generate import numeric
    >>> times, online = np.array([0.0, 1000.0]), np.array([True, False])
    >>> phone = Trace(devices=("phone",), start=np.array([0, 2]), time_s=times, online=online)
    >>> [int(round_.online.sum()) for round_ in trace(numeric(clients=10, edges=1), phone, 2)]
    [10, 10]
    """
    _check(rounds, seed)
    finite("round_seconds", round_seconds, 0, open_below=True)
    finite("start_s", start_s, 0)
    last_s = start_s + (rounds - 1) * round_seconds
    if last_s > trace.end_s:
        possible = max(0, int((trace.end_s - start_s) // round_seconds) + 1)
        raise StagewiseError(
            f"rounds = {rounds}: the trace ends at {trace.end_s:g} s: with start_s = {start_s:g} "
            f"and round_seconds = {round_seconds:g} there must be at most {possible}"
        )
    order = generator(seed, "trace devices").permutation(len(trace))
    device = np.resize(order, len(scenario.clients))
    return [
        Round(scenario, trace.online_at(start_s + g * round_seconds)[device], g)
        for g in range(rounds)
    ]


def _uniform(scenario: Scenario, seed: int, purpose: str, round_index: int) -> FloatArray:
    return generator(seed, purpose, round_index).random(len(scenario.clients))


def _check(rounds: int, seed: int) -> None:
    whole("rounds", rounds, 1, LARGEST_ROUNDS)
    seed_number(seed)
