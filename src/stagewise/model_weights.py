"""The weights of a model, as files, messages and training exchange them."""

from typing import Any

import numpy.typing as npt

ModelWeights = dict[str, npt.NDArray[Any]]
"""A model's parameters and buffers by their names in its `state_dict`."""
