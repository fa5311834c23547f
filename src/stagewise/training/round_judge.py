"""Which updates of a simulated round count, edge round by edge round, and what becomes of the models."""

import itertools
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from stagewise.outcomes import RoundAccount, TrainingFigures
from stagewise.robust.labels import BiasRise, bias_rise
from stagewise.robust.rules import combine, is_mean, left_out
from stagewise.robust.safeguards import Safeguards, UpdateFigures, judge_edges, judge_updates
from stagewise.training.participants import Participants
from stagewise.world.scenario import BoolArray, FloatArray, IntArray


class RoundJudge:
    """One round of `who` under `safeguards`, from its first edge round to the cloud's model."""

    def __init__(self, who: Participants, safeguards: Safeguards, edge_rounds: int) -> None:
        self.who, self.safeguards = who, safeguards
        self._counted: list[BoolArray] = []
        self._rises = np.full((edge_rounds, len(who.clients), len(BiasRise._fields)), np.nan)
        """What was seen of the output biases, by edge round and the place of the client."""
        self._reasons: dict[tuple[int, int], str] = {}
        self._edge_reasons: dict[int, str] = {}
        self._edge_norms = np.full(len(who.edge_share), np.nan)
        self._edges_counted = np.ones(len(who.edge_share), np.bool_)
        self._behind = np.zeros(len(who.edge_share))
        """The share of each edge's data that is behind its model."""

    def see(self, place: int, before: FloatArray, after: FloatArray) -> None:
        """Take the output biases of the update of the client at `place`: its edge's, and its own."""
        labels = self.safeguards.labels
        assert labels is not None
        held = labels.held[self.who.clients[place]]
        self._rises[len(self._counted), place] = bias_rise(before, after, held, labels.outputs)

    def counted(self, norms: FloatArray) -> BoolArray:
        """Which clients' updates of an edge round count in a mean."""
        counted = self._accepted(norms)
        self._note(counted)
        return counted

    def _accepted(self, norms: FloatArray) -> BoolArray:
        """Which updates can be honest ones."""
        clients, counted = self.who.clients.tolist(), np.ones(len(norms), np.bool_)
        rises = itertools.starmap(BiasRise, self._rises[len(self._counted)].tolist())
        figures = list(map(UpdateFigures, norms.tolist(), rises))
        for edge in range(len(self.who.edge_share)):
            members = np.flatnonzero(self.who.edge == edge)
            by_client = {clients[place]: figures[place] for place in members}
            guard = self.safeguards
            refused = judge_updates(by_client, guard.updates, guard.offenders, guard.aggregator)
            self._reasons |= {
                (len(self._counted), client): why.reason for client, why in refused.items()
            }
            counted[members] = [clients[place] not in refused for place in members]
        return counted

    def without_refused(self, counted: BoolArray) -> tuple[Participants, IntArray, IntArray]:
        """Those who train again because others at their edge are refused; the edges concerned.

        The last are those of them with nobody left: their models stay as they are.
        """
        changed = np.unique(self.who.edge[~counted])
        again = self.who.only(counted & np.isin(self.who.edge, changed))
        return again, changed, np.setdiff1d(changed, again.edge)

    def combined(
        self, models: Tensor, norms: FloatArray
    ) -> Iterator[tuple[int, IntArray, npt.NDArray[np.floating]]]:
        """Each edge with its new model, by the rule, and the clients in it; not those without any."""
        accepted = self._accepted(norms)
        counted = np.zeros_like(accepted)
        for edge in range(len(self.who.edge_share)):
            members = np.flatnonzero(accepted & (self.who.edge == edge))
            if not members.size:
                continue
            rule, share = self.safeguards.aggregator, self.who.share[members]
            combined, kept = combine(models[torch.from_numpy(members)].numpy(), share, rule)
            counted[members[kept]] = True
            others = self.who.clients[members[~kept]].tolist()
            self._reasons |= {(len(self._counted), client): left_out(rule) for client in others}
            yield edge, members[kept], combined
        self._note(counted)

    def cloud_model(self, models: Tensor, norms: FloatArray) -> tuple[Tensor, BoolArray]:
        """Eq. 3 over the edges' models, whose distance from the cloud's is `norms`; those in it."""
        self._edge_norms = norms
        by_edge = {edge: float(norms[edge]) for edge in np.flatnonzero(self._behind > 0).tolist()}
        refused = judge_edges(by_edge, self.safeguards)
        self._edge_reasons = refused
        counted = np.array([edge in by_edge and edge not in refused for edge in range(len(norms))])
        share = self.who.edge_share
        if not counted.all() or (self._behind < 1).any():
            share = share * self._behind * counted
            counted &= bool(share.any())
            share = share / max(share.sum(), 1e-300)
        if not is_mean(self.safeguards.aggregator) and counted.any():
            places = np.flatnonzero(counted)
            rule = self.safeguards.aggregator
            combined, kept = combine(models.numpy()[places], share[places], rule)
            counted[places[~kept]] = False
            self._edge_reasons |= dict.fromkeys(places[~kept].tolist(), left_out(rule))
            self._edges_counted = counted
            return torch.from_numpy(combined), counted
        self._edges_counted = counted
        shares = torch.from_numpy(share).to(models.dtype)
        return (shares @ models if counted.all() else shares[counted] @ models[counted]), counted

    def figures(self, edge_rounds: Sequence[FloatArray]) -> TrainingFigures:
        """The figures of the round, with what was counted."""
        order = np.argsort(self.who.clients)
        account = RoundAccount(
            client=self.who.clients[order],
            group=self.who.group[self.who.edge[order]],
            norms=np.stack([figures[2, order] for figures in edge_rounds]),
            rises=self._rises[:, order],
            counted=np.stack([counted[order] for counted in self._counted]),
            edge_norms=dict(zip(self.who.group.tolist(), self._edge_norms.tolist(), strict=True)),
            edges_counted=frozenset(self.who.group[self._edges_counted].tolist()),
            reasons=self._reasons,
            edge_reasons={int(self.who.group[e]): why for e, why in self._edge_reasons.items()},
        )
        return TrainingFigures.of(self.who.clients, edge_rounds)._replace(account=account)

    def _note(self, counted: BoolArray) -> None:
        self._counted.append(counted)
        present = np.bincount(
            self.who.edge[counted], self.who.data_share[counted], minlength=len(self._behind)
        )
        whole = np.bincount(self.who.edge[~counted], minlength=len(self._behind)) == 0
        self._behind = np.where(present > 0, np.where(whole, 1.0, present), self._behind)
