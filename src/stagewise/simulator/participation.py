"""The rounds a run goes through, drawn before it starts."""

from stagewise.errors import StagewiseError
from stagewise.runs.config import Participation
from stagewise.world import participation
from stagewise.world.fluctuation import fluctuate
from stagewise.world.rounds import Round
from stagewise.world.scenario import Scenario
from stagewise.world.trace import load_trace


def draw_rounds(wanted: Participation, scenario: Scenario, rounds: int, seed: int) -> list[Round]:
    """Who is online in each round, by the model that is wanted."""
    if wanted.model == "own":
        raise StagewiseError("participation.model = 'own': the rounds themselves must be given")
    if wanted.trace is not None:
        trace = load_trace(wanted.trace, wanted.trace_states)
        drawn = participation.trace(scenario, trace, rounds, seed, wanted.round_seconds)
    elif wanted.model == "markov":
        drawn = participation.markov(scenario, rounds, seed, wanted.mean_session)
    else:
        drawn = participation.bernoulli(scenario, rounds, seed)
    return fluctuate(drawn, seed) if wanted.fluctuate else drawn
