"""What a run did beside training: `events.jsonl`, which is there only if something happened."""

from typing import Literal

import msgspec


class Event(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True
):
    """A line of `events.jsonl`."""

    round: int
    kind: Literal["rejected", "quarantined"]
    client: str | None = None
    edge: str | None = None
    edge_round: int | None = None
    reason: str

    def __str__(self) -> str:
        who = " at ".join(name for name in (self.client, self.edge) if name is not None)
        return f"round {self.round + 1}: {who}: {self.kind}: {self.reason}"
