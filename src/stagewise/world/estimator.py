"""How likely a client is to be online, from what was seen of it (Eq. 6)."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

DEFAULT_WINDOW = 10


def window_weights(windows: int) -> npt.NDArray[np.float64]:
    """The weight of each of `windows` observation windows, oldest first; they sum to 1 (Eq. 6)."""
    return 2.0 * np.arange(1, windows + 1) / (windows * (windows + 1))


def rolling_estimate(observations: npt.ArrayLike, window: int) -> npt.NDArray[np.float64]:
    """The rolling-window estimate of online probabilities (Eq. 6).

    `observations` has shape (rounds, clients), oldest round first, 1 for online. Windows are counted
    back from the newest round; what is left at the old end and fills no window is not used. With
    fewer rounds than one window the plain mean of what there is stands in.
    """
    seen = np.asarray(observations, dtype=np.float64)
    means = _window_means(seen, window)
    return np.asarray(window_weights(len(means)) @ means if len(means) else seen.mean(axis=0))


def _window_means(
    seen: npt.NDArray[np.float64] | npt.NDArray[np.bool_], window: int
) -> npt.NDArray[np.float64]:
    """The mean of each full window, counted back from the newest round; oldest first."""
    windows = len(seen) // window
    newest = seen[len(seen) - windows * window :]
    return np.asarray(newest.reshape(windows, window, seen.shape[1]).mean(axis=1))


def estimate_from_history(history: str, window: int) -> float:
    """Eq. 6 for one client's history, a string of 0 and 1, oldest first."""
    bits = np.frombuffer(history.encode(), dtype=np.uint8) - ord("0")
    return float(rolling_estimate(bits[:, None], window)[0])


class ParticipationEstimator:
    """The estimate of Eq. 6, kept up to date as rounds go by.

    What was known before the first round, a probability for each client, counts as the oldest
    window, so that the estimate starts there and moves with every full window that is observed.
    """

    def __init__(self, prior: npt.ArrayLike, window: int = DEFAULT_WINDOW) -> None:
        self._prior = np.array(prior, dtype=np.float64)
        self._window = window
        self._seen: list[npt.NDArray[np.bool_]] = []

    @property
    def rounds(self) -> int:
        """How many rounds have been observed."""
        return len(self._seen)

    def observe(self, online: npt.NDArray[np.bool_]) -> None:
        """Take in who was online in the round that has just passed; shape (clients,)."""
        if online.shape != self._prior.shape:
            raise ValueError(f"online must have shape {self._prior.shape}, but has {online.shape}")
        self._seen.append(np.array(online, dtype=np.bool_))

    def state(self) -> npt.NDArray[np.bool_]:
        """All that was observed; shape (rounds, clients)."""
        return np.array(self._seen, dtype=np.bool_).reshape(self.rounds, len(self._prior))

    def restore(self, state: npt.NDArray[np.bool_]) -> None:
        """Be as when `state` was taken."""
        self._seen = list(np.asarray(state, dtype=np.bool_))

    def probabilities(self) -> npt.NDArray[np.float64]:
        """The present estimate for each client, shape (clients,)."""
        means = np.vstack([self._prior, _window_means(self.state(), self._window)])
        # A sum of weights may exceed 1 by a rounding error.
        return np.asarray(np.minimum(window_weights(len(means)) @ means, 1.0))

    def recent_mean(self) -> npt.NDArray[np.float64]:
        """The share of the newest window's rounds (or of all, while there are fewer) spent online."""
        newest: Sequence[npt.NDArray[np.bool_]] = self._seen[-self._window :]
        return np.asarray(np.mean(newest, axis=0))
