"""The weights of a model, as files, messages and training exchange them."""

from typing import Any, Literal

import numpy.typing as npt

ModelWeights = dict[str, npt.NDArray[Any]]
"""A model's parameters and buffers by their names in its `state_dict`."""

Dtype = Literal["float32", "float64", "bfloat16"]
"""How exactly a model is trained; with `bfloat16` its weights are float32."""
