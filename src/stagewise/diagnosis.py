"""What an examination found, for `stagewise doctor` and `stagewise deploy doctor`."""

from dataclasses import dataclass
from typing import Literal

Verdict = Literal["ok", "optional", "warning", "problem"]
"""`optional` is what is not there, and is needed only for what its text names."""


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    what: str
    verdict: Verdict
    text: str
