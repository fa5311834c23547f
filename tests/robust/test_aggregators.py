"""The rules that combine models, against their definitions written out; and the limits of norms."""

import itertools
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from stagewise.robust.labels import BiasRise
from stagewise.robust.norms import TOO_LARGE, NormLimits, judge_norms, learned_limits
from stagewise.robust.rules import AGGREGATORS, combine, is_mean, multi_krum
from stagewise.robust.safeguards import Safeguards, UpdateFigures, judge_edges, judge_updates

NUMBERS = st.floats(-1e3, 1e3, width=32)
MODELS = st.integers(1, 9).flatmap(lambda n: arrays(np.float32, (n, 3), elements=NUMBERS))


def trimmed_mean(column, shares):
    """One number of the models, without the extremes."""
    cut = int(0.3 * len(column))
    pairs = sorted(enumerate(column), key=lambda pair: pair[1])[cut : len(column) - cut]
    return sum(shares[i] * x for i, x in pairs) / sum(shares[i] for i, _ in pairs)


@given(MODELS)
def test_trimmed_mean_and_median_are_those_of_every_number(models):
    shares = np.arange(1.0, len(models) + 1)
    combined, kept = combine(models, shares, "trimmed-mean")
    expected = [trimmed_mean(column.tolist(), shares) for column in models.T]
    np.testing.assert_allclose(combined, expected, rtol=1e-4, atol=1e-3)
    median, _ = combine(models, shares, "median")
    np.testing.assert_array_equal(median, np.median(models, axis=0).astype(np.float32))
    assert kept.all() and combined.dtype == np.float32


@given(MODELS)
def test_multi_krum_keeps_the_smallest_scores(models):
    wrong = int(0.3 * len(models))
    kept = multi_krum(models, wrong)
    nearest = len(models) - wrong - 2
    if wrong == 0 or nearest < 1:
        assert kept.all()
        return
    numbers = models.astype(float)
    scores = []
    for i in range(len(models)):
        others = sorted(
            np.sum((numbers[i] - numbers[j]) ** 2) for j in range(len(models)) if j != i
        )
        scores.append(sum(others[:nearest]))
    assert kept.sum() == len(models) - wrong
    worst_kept = max(itertools.compress(scores, kept))
    assert worst_kept <= min(itertools.compress(scores, ~kept)) * (1 + 1e-6) + 1e-3


@pytest.mark.parametrize("aggregator", [one for one in AGGREGATORS if not is_mean(one)])
def test_three_of_ten_cannot_lead_it_astray(aggregator):
    rng = np.random.default_rng(0)
    honest = rng.normal(1.0, 0.1, (7, 50))
    wrong = np.full((3, 50), -1e6)
    combined, _ = combine(np.concatenate([honest, wrong]), np.ones(10), aggregator)
    assert np.abs(combined - 1.0).max() < 0.5
    mean, _ = combine(np.concatenate([honest, wrong]), np.ones(10), "mean")
    assert np.abs(mean).min() > 1e5


def test_norms_are_limited_by_median_and_spread():
    rng = np.random.default_rng(0)
    usual = np.exp(rng.normal(0.0, 1.0, 2000))
    limits = learned_limits(usual)
    assert limits.reject == pytest.approx(np.exp(6.0), rel=0.2)
    assert limits.doubtful == pytest.approx(np.exp(2.0), rel=0.2)
    # A part of them may be anything.
    spoilt = learned_limits(np.concatenate([usual, np.full(400, 1e9)]))
    assert spoilt.reject < 1e5
    equal = learned_limits(np.ones(8))
    assert (equal.reject, equal.doubtful) == pytest.approx((100.0, 3.0))
    assert learned_limits(np.ones(7)) is None
    assert learned_limits(np.array([1.0] * 7 + [TOO_LARGE])) is None
    assert learned_limits(np.zeros(100)) is None


def test_before_anything_is_known_updates_are_compared_with_each_other():
    assert judge_norms({"a": 1.0, "b": 2.0, "c": 1e6}, None).keys() == {"c"}
    assert judge_norms({"a": 1.0, "c": 1e6}, None).keys() == {"c"}
    assert judge_norms({"c": 1e6}, None) == {}
    assert judge_norms({"c": np.inf}, None).keys() == {"c"}
    assert judge_norms({"a": TOO_LARGE, "b": TOO_LARGE}, None).keys() == {"a", "b"}
    assert judge_norms({"a": 0.0, "b": 0.0}, None) == {}


def test_only_what_lies_beyond_the_limit_is_rejected():
    limits = NormLimits(reject=50.0, doubtful=3.0)
    assert judge_norms({"a": 50.0, "b": 1.0}, limits) == {}
    refused = judge_norms({"a": 50.0, "b": 51.0}, limits)
    assert refused == {"b": "the norm of its update is 51: must be at most 50 by the rounds before"}
    assert judge_norms({"a": float("nan")}, limits).keys() == {"a"}


def test_an_update_that_there_are_reasons_to_doubt_may_not_be_large():
    limits = NormLimits(reject=50.0, doubtful=3.0)
    judge = partial(judge_updates, learned=limits, aggregator="mean")
    large, usual = UpdateFigures(4.0), UpdateFigures(2.0)
    assert judge({"a": large, "b": large}, offenders={"b"}).keys() == {"b"}
    assert judge({"b": usual}, offenders={"b"}) == {}
    high, low = BiasRise(0.7, 0.0), BiasRise(0.5, 0.0)
    found = {
        "a": UpdateFigures(4.0, high),
        "b": UpdateFigures(4.0, low),
        "c": UpdateFigures(2.0, high),
    }
    refused = judge(found, offenders=set())
    assert refused.keys() == {"a"} and "by 0.70 of what it can" in refused["a"].reason
    # Before anything is learned all may raise the biases much.
    assert judge_updates({"a": found["a"], "b": usual}, None, set(), "mean") == {}
    wrong = {
        "a": UpdateFigures(1.0, BiasRise(2.0, 0.0)),
        "b": UpdateFigures(1.0, BiasRise(0.1, 0.5)),
    }
    assert judge(wrong, offenders=set()).keys() == {"a", "b"}
    assert judge(wrong, offenders={"a"}, aggregator="plain-mean") == {}


def test_a_plain_mean_takes_no_norm_that_is_not_a_number():
    figures = {
        "a": UpdateFigures(float("nan")),
        "b": UpdateFigures(TOO_LARGE),
        "c": UpdateFigures(1e9),
    }
    assert judge_updates(figures, None, set(), "plain-mean").keys() == {"a", "b"}
    norms = {name: update.norm for name, update in figures.items()}
    assert judge_edges(norms, Safeguards("plain-mean")).keys() == {"a", "b"}


def test_models_without_a_share_may_be_all_that_is_kept():
    models = np.array([[1.0], [1.1], [0.9], [50.0]])
    combined, kept = combine(models, np.array([0.0, 0.0, 0.0, 1.0]), "multi-krum")
    assert not kept[3] and np.isfinite(combined).all()
