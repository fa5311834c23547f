"""Malformed arrays of rounds and answers: one line that names field, value and rule."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from test_malformed import INF, NAN, NEVER_ARRAYS, NEVER_NUMBERS, damaged

from helpers import random_scenario
from stagewise.decisions import Answer, contract_violation
from stagewise.errors import StagewiseError
from stagewise.world.rounds import Round

LEAST = 2000
SCENARIO = random_scenario(3, clients=5, edges=3, isolated=0)
CLIENTS, EDGES, LINKS = 5, 3, len(SCENARIO.links)
ONLINE = np.ones(CLIENTS, dtype=np.bool_)
VALUES = {
    "cpu_hz": np.linspace(1e9, 2e9, CLIENTS),
    "gain": np.linspace(1e-9, 2e-9, LINKS),
    "delay_s": np.linspace(1.0, 2.0, LINKS),
    "energy_j": np.linspace(1.0, 2.0, LINKS),
    "surcharge": np.linspace(0.0, 1.0, CLIENTS),
}
ODD = [True, "x", None, object(), [1], 1j, 10**400, -(10**400)]
Case = tuple[str, str, Callable[[], Any]]


def round_with(**changes: Any) -> Round:
    return Round(**{"scenario": SCENARIO, "online": ONLINE} | changes)


def replaced(values: list, place: int, value: Any) -> list:
    return [*values[:place], value, *values[place + 1 :]]


def number_cases() -> Iterator[Case]:
    for field, array in VALUES.items():
        wrong = [*NEVER_ARRAYS, *damaged(array), np.full(array.shape, INF), -array - 1]
        wrong += [np.full(array.shape, 1e308)] * (field in ("delay_s", "energy_j"))
        for place in range(len(array)):
            for value in (-1e-300, -1.0, INF, -INF, -1e308):
                changed = array.copy()
                changed[place] = value
                wrong.append(changed)
            wrong += [replaced(array.tolist(), place, value) for value in ODD]
        for number, value in enumerate(wrong):
            yield (
                f"{field}, {number}: {value!r}",
                field,
                lambda f=field, v=value: round_with(**{f: v}),
            )


def mask_cases() -> Iterator[Case]:
    for field, size in (("online", CLIENTS), ("up", LINKS)):
        mask = np.ones(size, dtype=np.bool_)
        wrong = [*NEVER_ARRAYS, mask[:-1], mask[None], mask[:, None]]
        wrong += [value for value in damaged(mask.astype(np.int64)) if not fine_mask(value, size)]
        wrong += [mask.astype(kind) for kind in (int, float, str, object)]
        wrong += [np.ones(length, dtype=np.bool_) for length in range(40) if length != size]
        wrong += [[True] * length for length in range(40) if length != size]
        wrong += [np.full(size, NAN), ["c0", "c1"], [None] * size, [True] * (size - 1) + [1]]
        for place in range(size):
            wrong += [replaced(mask.tolist(), place, value) for value in (*ODD[1:], 0, 1, NAN)]
        for number, value in enumerate(wrong):
            yield (
                f"{field}, {number}: {value!r}",
                field,
                lambda f=field, v=value: round_with(**{f: v}),
            )


def index_cases() -> Iterator[Case]:
    for value in (*NEVER_NUMBERS, None, 0.5, 1.0, INF, 2**63, -3, np.float64(2)):
        yield f"index: {value!r}", "index", lambda v=value: round_with(index=v)
    for value in (None, 3, "x", [], {}, object(), SCENARIO.clients):
        yield f"scenario: {value!r}", "scenario", lambda v=value: round_with(scenario=v)


def answer_cases() -> Iterator[Case]:
    edge_of, weights = np.array([0, -1, 2, 1, 0]), np.array([1.0, 0.5, 0.0])
    wrong = [value for value in NEVER_ARRAYS if not is_empty_whole(value)]
    wrong += [value for value in damaged(edge_of) if not fine_edges(value)]
    wrong += [edge_of + 0.5, edge_of * NAN, edge_of.astype(float), [0, 1, 2.0], [True, False]]
    for place in range(CLIENTS):
        for value in (-2, -(2**62), 2**62, 2**31):
            changed = edge_of.copy()
            changed[place] = value
            wrong.append(changed)
    for number, value in enumerate(wrong):
        yield f"edge_of, {number}: {value!r}", "edge_of", lambda v=value: Answer(v)
    odd = [value for value in (*NEVER_ARRAYS, *damaged(weights)) if not fine_weights(value)]
    for number, value in enumerate(odd):
        case = f"edge_weights, {number}: {value!r}"
        yield case, "edge_weights", lambda v=value: Answer(edge_of, None, v)
    for number, value in enumerate([*odd, weights]):  # the last of which is 0
        case = f"client_weights, {number}: {value!r}"
        yield case, "client_weights", lambda v=value: Answer(edge_of, client_weights=v)
    for value in (*NEVER_NUMBERS, INF, np.inf):
        if type(value) not in (int, float) or not -2 < value < 2:
            yield f"lower_bound: {value!r}", "lower_bound", lambda v=value: Answer(edge_of, v)


def is_empty_whole(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.shape == (0,) and value.dtype.kind in "iu"


def fine_edges(value: Any) -> bool:
    """Whether it is an answer for some scenario, if not for this one."""
    try:
        array = np.asarray(value)
    except Exception:
        return False
    return array.ndim == 1 and array.dtype.kind in "iu" and bool((array >= -1).all())


def fine_mask(value: Any, size: int) -> bool:
    return isinstance(value, np.ndarray) and value.dtype == np.bool_ and value.shape == (size,)


def fine_weights(value: Any) -> bool:
    try:
        array = np.asarray(value)
    except Exception:
        return False
    right = array.ndim == 1 and array.dtype.kind in "iuf"
    return right and bool((np.isfinite(array) & (array >= 0)).all())


ALL = (number_cases, mask_cases, index_cases, answer_cases)


@pytest.mark.parametrize("cases", ALL, ids=lambda cases: cases.__name__)
@pytest.mark.filterwarnings("error")
def test_every_malformed_construction_is_a_stagewise_error(cases):
    wrong = []
    for name, field, make in cases():
        try:
            made = make()
        except StagewiseError as error:
            line = str(error)
            if "\n" in line or field not in line or "must" not in line:
                wrong.append(f"{name[:120]}: must name field and rule in one line: {line}")
        except BaseException as error:
            wrong.append(f"{name[:120]}: {type(error).__name__}: {error}")
        else:
            wrong.append(f"{name[:120]}: accepted as {made}")
    assert not wrong, f"{len(wrong)} of them:\n" + "\n".join(wrong[:40])


def test_they_are_many():
    assert sum(1 for cases in ALL for _ in cases()) >= LEAST


def test_random_answers_are_carried_out_or_refused():
    """Whole numbers that are no assignment of this round never reach compiled loops."""
    rng = np.random.default_rng(0)
    round_, kept = round_with(), 0
    for _ in range(LEAST):
        length = CLIENTS if rng.random() < 0.8 else int(rng.integers(0, 9))
        answer = Answer(rng.integers(-1, EDGES + 1, length))
        broken = contract_violation(round_, answer)
        kept += broken is None
        assert broken is None or "\n" not in broken
    assert 0 < kept < LEAST / 2
