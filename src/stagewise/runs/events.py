"""What a run did beside training: `events.jsonl`, which is there only if something happened."""

from typing import Literal

import msgspec


class Event(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True
):
    """A line of `events.jsonl`."""

    round: int
    kind: Literal["rejected", "quarantined", "returned", "rolled-back", "joined"]
    client: str | None = None
    edge: str | None = None
    edge_round: int | None = None
    to: int | None = None
    """The round whose model is used again, from 0."""
    reason: str

    def __str__(self) -> str:
        who = " at ".join(name for name in (self.client, self.edge) if name is not None)
        what = self.kind if self.to is None else f"{self.kind} to the model of round {self.to + 1}"
        return f"round {self.round + 1}: {f'{who}: ' if who else ''}{what}: {self.reason}"
