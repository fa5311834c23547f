"""Forecasts of who will be online, scored on the phones' trace beside Eq. 6.

    python benchmarks/forecasts.py TRACE          # a table of scores, on the phones of odd numbers
    python benchmarks/forecasts.py TRACE --tune   # constants compared, on those of even numbers
    python benchmarks/forecasts.py TRACE --plans  # what rounds cost when plans are made by each

TRACE is availability-trace/flame_mobiperf_300dev_6d.json.gz of the data folder. Rounds are ten minutes
apart. A forecast learns as it goes, from the phones that it is scored on and from nothing else but one
prior for all: how often the phones of even numbers were online on the first day. Rounds of the first
day are not scored. Differences to Eq. 6 are paired by phone; their 95% intervals are Student's t over
phones.
"""

import argparse
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np

import stagewise
from stagewise.world.estimator import DEFAULT_WINDOW, rolling_estimate
from stagewise.world.forecasts import (
    FORECASTS,
    Forecast,
    MarkovForecast,
    MixtureForecast,
    RollingForecast,
    TimeOfDayForecast,
    make_forecast,
)
from stagewise.world.participation import TRACE_START_S
from stagewise.world.trace import load_trace
from stagewise_experiments.statistics import Estimate, estimate

ROUND_S = 600.0
DAY = 144
"""Rounds."""
AHEAD = (1, 6)
HORIZON = 60
"""Rounds that a plan may be in force."""
SHARE = f"share of the next {HORIZON}"
LEAST = 1e-6
"""No probability is taken to be closer to 0 or 1 in the log loss."""

Make = Callable[[np.ndarray], Forecast]
Scores = dict[str, np.ndarray]


class Unchanged(MarkovForecast):
    """Every phone stays as it is: what a forecast of one round ahead has to beat."""

    def probabilities(self, ahead: int = 1) -> np.ndarray:
        return self._last.astype(np.float64)

    def mean_probability(self, horizon: int) -> np.ndarray:
        return self.probabilities()


def observations(trace_file: Path) -> np.ndarray:
    """Who is online in each round; shape (rounds, phones)."""
    trace = load_trace(trace_file)
    rounds = int((trace.end_s - TRACE_START_S) // ROUND_S) + 1
    return np.array([trace.online_at(TRACE_START_S + ROUND_S * g) for g in range(rounds)])


def scores(make: Make, prior: float, seen: np.ndarray) -> Scores:
    """The mean of each score over all rounds after the first day, for each phone."""
    rounds, phones = seen.shape
    forecast = make(np.full(phones, prior))
    names = [f"{score}, {ahead} ahead" for ahead in AHEAD for score in ("Brier", "log loss")]
    losses: dict[str, list[np.ndarray]] = {name: [] for name in [*names, SHARE]}
    for last in range(rounds - 1):
        forecast.observe(seen[last])
        for ahead in AHEAD:
            if DAY <= last + ahead < rounds:
                said, online = forecast.probabilities(ahead), seen[last + ahead]
                right = np.clip(np.where(online, said, 1 - said), LEAST, 1)
                losses[f"Brier, {ahead} ahead"].append((said - online) ** 2)
                losses[f"log loss, {ahead} ahead"].append(-np.log(right))
        if last + 1 >= DAY and last + HORIZON < rounds:
            share = seen[last + 1 : last + 1 + HORIZON].mean(axis=0)
            error = forecast.mean_probability(HORIZON) - share
            losses[SHARE].append(error**2)
    return {name: np.mean(values, axis=0) for name, values in losses.items()}


def print_table(found: dict[str, Scores], title: str) -> None:
    """The means over phones, and the differences to the first row."""
    reference = next(iter(found.values()))
    print(f"| {title} | {' | '.join(reference)} |")
    print("|---" + "|---:" * len(reference) + "|")
    for name, values in found.items():
        cells = [f"{values[score].mean():.4f}" for score in reference]
        print(f"| {name} | {' | '.join(cells)} |")
    for name, values in list(found.items())[1:]:
        apart = [estimate((values[score] - reference[score]).tolist()) for score in reference]
        print(f"| {name} - Eq. 6 | {' | '.join(difference(one) for one in apart)} |")


def difference(apart: Estimate | None) -> str:
    assert apart is not None
    assert apart.half_width is not None
    return f"{apart.mean:+.4f} ± {apart.half_width:.4f}"


def candidates() -> dict[str, Make]:
    """What is compared on the phones of even numbers."""
    made: dict[str, Make] = {}
    for window in (10, 1, 3, 30, 72):
        made[f"rolling, window {window}"] = lambda prior, w=window: RollingForecast(prior, w)
    for days in (2.0, 4.0, 8.0, 16.0):
        for prior_days in (0.25, 1.0, 2.0):
            made[f"time-of-day, slot {days:g}, prior {prior_days:g}"] = (
                lambda prior, slot=days, own=prior_days: TimeOfDayForecast(
                    prior, ROUND_S, slot_days=slot, prior_days=own
                )
            )
    for days in (0.5, 1.0, 4.0, 8.0):
        made[f"time-of-day, pool {days:g}"] = lambda prior, pool=days: TimeOfDayForecast(
            prior, ROUND_S, pool_days=pool
        )
    made["markov"] = MarkovForecast
    for memory in (1.0, 0.999, 0.99, 0.95):
        made[f"mixture, memory {memory:g}"] = lambda prior, kept=memory: MixtureForecast(
            {
                "rolling": RollingForecast(prior),
                "markov": MarkovForecast(prior),
                "time-of-day": TimeOfDayForecast(prior, ROUND_S),
            },
            kept,
        )
    return made


def print_costs(trace_file: Path, seeds: int = 4) -> None:
    """What rounds cost under re-planning by each forecast, over that under Eq. 6, by scenario.

    150 clients with the phones of the trace, 2 edges, Plan A after every 10 of 60 rounds. The forecasts
    have observed the day before; the first plan is made by Eq. 6 for all.
    """
    trace = load_trace(trace_file)
    cost: dict[str, list[float]] = {name: [] for name in FORECASTS}
    feasible: dict[str, list[float]] = {name: [] for name in FORECASTS}
    for seed in range(seeds):
        scenario = stagewise.generate.numeric(clients=150, edges=2, seed=seed)
        rounds = stagewise.participation.trace(scenario, trace, DAY + 60, seed, ROUND_S)
        past = np.array([round_.online for round_ in rounds[:DAY]])
        scenario = scenario.as_of(online_probability=rolling_estimate(past, DEFAULT_WINDOW))
        plan = stagewise.plan(scenario, method="local-search", seed=seed)
        later = [round_.online for round_ in rounds[DAY:]]
        for name in FORECASTS:
            forecast = make_forecast(name, past.mean(axis=0), round_seconds=ROUND_S)
            for online in past:
                forecast.observe(online)
            policy = stagewise.Replanned(
                stagewise.PlanPolicy(plan, "repair"),
                stagewise.Triggers(every=10),
                forecast=forecast,
            )
            with closing(policy):
                made = stagewise.solve(scenario, later, policy)
            cost[name].append(float(np.mean([decision.objective for decision in made])))
            feasible[name].append(float(np.mean([decision.feasible for decision in made])))
        shown = ", ".join(f"{name} {cost[name][-1]:.4f}" for name in FORECASTS)
        print(f"scenario {seed}: {shown}", file=sys.stderr)
    print(f"| {seeds} scenarios | log of cost over Eq. 6's | feasible rounds |")
    print("|---|---:|---:|")
    for name in FORECASTS:
        apart = estimate((np.log(cost[name]) - np.log(cost["rolling"])).tolist())
        print(f"| {name} | {difference(apart)} | {np.mean(feasible[name]):.3f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("trace", type=Path)
    parser.add_argument("--tune", action="store_true")
    parser.add_argument("--plans", action="store_true")
    arguments = parser.parse_args()
    if arguments.plans:
        print_costs(arguments.trace)
        return
    seen = observations(arguments.trace)
    even, odd = seen[:, ::2], seen[:, 1::2]
    prior = float(even[:DAY].mean())
    if arguments.tune:
        found = {name: scores(make, prior, even) for name, make in candidates().items()}
        print_table(found, "phones of even numbers")
        return
    named: dict[str, Make] = {
        name: lambda prior, name=name: make_forecast(name, prior, round_seconds=ROUND_S)
        for name in FORECASTS
    }
    named["stays as it is"] = Unchanged
    found = {name: scores(make, prior, odd) for name, make in named.items()}
    print_table(found, "phones of odd numbers")


if __name__ == "__main__":
    main()
