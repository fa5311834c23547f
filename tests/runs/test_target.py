"""A target is reached by the mean of three successive evaluations, not by a lucky one."""

import pytest

from stagewise.runs.target import rounds_to_target


@pytest.mark.parametrize(
    ("accuracies", "rounds"),
    [
        ([], None),
        ([0.95, 0.95], None),  # only two evaluations
        ([0.95, 0.95, 0.95], 3),
        ([0.9, 0.9, 0.9], 3),  # to be equal is enough
        ([0.1, 0.2, 0.3], None),
        ([0.99, 0.8, 0.8, 0.99, 0.8], None),
        ([0.1, 0.85, 0.9, 0.96, 0.2], 4),  # the mean of three, not each of three
        ([None, 0.9, None, 0.9, None, 0.9, None], 6),  # every second round is evaluated
        ([0.9, None, None, 0.9, 0.9], 5),
        ([1.0, 1.0, 0.5, 1.0, 1.0, 1.0], 6),
    ],
)
def test_rounds_to_target(accuracies: list[float | None], rounds: int | None) -> None:
    assert rounds_to_target(accuracies, 0.9) == rounds
    if rounds is not None:  # whatever comes later
        assert rounds_to_target([*accuracies, 0.0, 1.0, 1.0, 1.0], 0.9) == rounds
