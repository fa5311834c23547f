"""How likely a client is to be online, from what was seen of it (Eq. 6)."""

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
    means = window_means(seen, window)
    return np.asarray(window_weights(len(means)) @ means if len(means) else seen.mean(axis=0))


def window_means(
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
