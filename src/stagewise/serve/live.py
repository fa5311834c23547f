"""A federation's policy in step with what the store holds of it.

The entries of a federation are its whole history: decisions, outcomes and plans that were taken up. A
policy that is made again and told the same gives the same answers, so that any process can take over
from any other at any entry; which of two got to decide a round is settled by the store alone.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import NamedTuple

import msgspec
import numpy as np

from stagewise.client.wire import (
    OutcomeReport,
    RoundRequest,
    RoundWeights,
    decision_of_record,
    losses_of_request,
    outcome_of_report,
    round_of_request,
)
from stagewise.decisions import Decision, DecisionRecord, make_decision
from stagewise.files import json_decoder
from stagewise.loop import announce_round
from stagewise.outcomes import expected_outcome
from stagewise.policies.policy import Policy
from stagewise.progress import ProgressCallback, ignore_progress
from stagewise.runs.checkpoint import state_from_bytes, state_to_bytes
from stagewise.serve.refusals import Conflict, NotReady
from stagewise.serve.settings import FederationSettings, PolicyWords
from stagewise.serve.store import Entry, NewEntry, Position, Snapshot, Store
from stagewise.serve.stored_plans import OrderedPlans, keep_plan, plan_of
from stagewise.serve.traces import Traces
from stagewise.world.rounds import Round
from stagewise.world.scenario import FloatArray, IntArray, Scenario

_AS_DECIDED = msgspec.json.encode(OutcomeReport())


class Decided(NamedTuple):
    """A decision that is in the store."""

    line: bytes
    """As it stands in a file, without the line break."""
    weights: RoundWeights
    new: Decision | None
    """None for one that was there already."""


class LiveFederation:
    """One federation in this process."""

    def __init__(
        self, store: Store, name: str, created: float, scenario: Scenario, traces: Traces
    ) -> None:
        self.name, self.created, self.scenario = name, created, scenario
        self.replaced = False
        """Whether it was found that another one was created under its name."""
        self._store, self._traces = store, traces
        self._lock = Lock()
        self._policy: Policy | None = None
        self._at = -1
        self._last_round = -1
        self._following: int | None = 0
        self._open: Decision | None = None
        """The newest decision, as long as nobody has said what came of it."""

    def prepare(
        self, settings: FederationSettings, progress: ProgressCallback = ignore_progress
    ) -> PolicyWords:
        """Make the policy, with its plan, and keep both."""
        with self._lock:
            policy = settings.make(self.scenario, self._ordered_plans(), progress=progress)
            if policy.plan is not None and not self._store.plans(self.name):
                keep_plan(self._store, self.name, self.created, policy.plan)
            self._policy, self._at, self._following = policy, 0, 0
            return PolicyWords.of(policy)

    def close(self) -> None:
        with self._lock:
            self._drop()

    def probe(self, request: RoundRequest) -> IntArray | None:
        """The clients whose losses the policy wants to know before it decides."""
        with self._lock:
            while True:
                policy = self._in_step()
                index = self._last_round + 1 if request.round is None else request.round
                round_ = round_of_request(self.scenario, request, index)
                with self._dropped_unless_kept():
                    # What it asks for may depend on what came of the round before.
                    before = self._before_next(policy) if index > self._last_round else []
                    if self._appended(before, self._snapshot(policy) if before else None):
                        policy.prepare(round_)
                        return policy.probe(round_)

    def decide(self, request: RoundRequest, key: str | None = None) -> Decided:
        """The decision of a round: the one that was made before, or else a new one."""
        with self._lock:
            while True:
                policy = self._in_step()
                known = self._known(request, key)
                if known is not None:
                    return known
                index = self._last_round + 1 if request.round is None else request.round
                round_ = round_of_request(self.scenario, request, index)
                losses = losses_of_request(self.scenario, request)
                with self._dropped_unless_kept():
                    before = self._before_next(policy)
                    snapshot = self._snapshot(policy) if before else None
                    with self._traces.span("decide", federation=self.name, round=index):
                        decision = _decided(policy, round_, losses)
                    entry = _entry_of(decision, request, key)
                    if self._appended([*before, entry], snapshot):
                        self._last_round, self._open = index, decision
                        assert entry.answer is not None
                        return Decided(entry.answer, RoundWeights.of(decision), decision)

    def observe(self, index: int, report: OutcomeReport) -> bool:
        """Tell the policy what came of a round; whether it is news."""
        told = msgspec.json.encode(report)
        with self._lock:
            while True:
                policy = self._in_step()
                known = self._store.entry(self.name, "outcome", index)
                if known is not None:
                    if known.asked == told:
                        return False
                    what = "was told otherwise before"
                    if known.more is not None:
                        what = "is taken to have gone as decided, as a later one was decided first"
                    raise Conflict(f"round {index}: its outcome {what}")
                if self._open is None or self._open.round.index != index:
                    raise Conflict(
                        f"round {index}: must be the newest that is decided, {self._last_round}"
                    )
                outcome = outcome_of_report(self._open, report)
                entry = NewEntry("outcome", index, asked=told)
                with self._dropped_unless_kept():
                    with self._traces.span("observe", federation=self.name, round=index):
                        policy.observe(outcome)
                    if self._appended([entry], self._snapshot(policy)):
                        self._open = None
                        return True

    def adopt(self, plan: int) -> None:
        """Follow another plan from the next decision on."""
        while True:
            at = self._store.position(self.name)
            self._require_same(at.created)
            if self._store.append(self.name, at, [NewEntry("plan", plan=plan)], None):
                return

    def _before_next(self, policy: Policy) -> list[NewEntry]:
        """What must be kept before the next decision: that the last round went as decided."""
        if self._open is None:
            return []
        policy.observe(expected_outcome(self._open))
        index, self._open = self._open.round.index, None
        return [NewEntry("outcome", index, asked=_AS_DECIDED, more=b"as decided")]

    def _snapshot(self, policy: Policy) -> Snapshot:
        """The policy as it is after one entry more than are kept."""
        return Snapshot(self._at + 1, state_to_bytes(policy.state()))

    def _appended(self, entries: list[NewEntry], snapshot: Snapshot | None) -> bool:
        """Keep `entries`; if another process was first, this policy went ahead of it and is dropped."""
        at = Position(self.created, self._at)
        if not entries:
            return True
        with self._traces.span("keep", federation=self.name):
            kept = self._store.append(self.name, at, entries, snapshot)
        if kept:
            self._at += len(entries)
        else:
            self._drop()
        return kept

    def _known(self, request: RoundRequest, key: str | None) -> Decided | None:
        """The decision that was made for this very request, if one was."""
        row = None
        if key is not None:
            row = self._store.entry_by_key(self.name, "decision", key)
        if row is None and request.round is not None and request.round <= self._last_round:
            row = self._store.entry(self.name, "decision", request.round)
            if row is None:
                raise Conflict(
                    f"round = {request.round}: must be above {self._last_round}, the newest that is "
                    f"decided"
                )
        if row is None:
            return None
        if request.round not in (None, row.round):
            raise Conflict(
                f"round = {request.round}: must be {row.round}, which was decided under this key"
            )
        if row.asked != _asked(request, row.round):
            raise Conflict(
                f"round {row.round}: was decided for another request: who is online, links, losses and "
                f"surcharges must be as they were"
            )
        return Decided(row.answer, RoundWeights.kept(row.more), None)

    # In step with the store

    @contextmanager
    def _dropped_unless_kept(self) -> Iterator[None]:
        """Drop the policy after an error: it may have been told what is not in the store."""
        try:
            yield
        except BaseException:
            self._drop()
            raise

    def _drop(self) -> None:
        if self._policy is not None:
            self._policy.close()
        self._policy, self._at, self._open = None, -1, None

    def _in_step(self) -> Policy:
        """The policy after all entries that there are."""
        at = Position(self.created, self._at)
        if self._policy is not None and self._store.position(self.name) == at:
            return self._policy
        row = self._store.federation(self.name)
        self._require_same(row.created)
        require_ready(row)
        with self._dropped_unless_kept():
            return self._caught_up(row)

    def _require_same(self, created: float) -> None:
        if created != self.created:
            self.replaced = True
            raise NotReady(f"federation {self.name!r}: was created again just now; ask again")

    def _ordered_plans(self) -> OrderedPlans:
        return OrderedPlans(self._store, self.name, self.created)

    def _caught_up(self, row: Entry) -> Policy:
        policy = self._policy
        if policy is None:
            settings = json_decoder(FederationSettings).decode(row.settings)
            first = None
            if self._store.plans(self.name):
                first = plan_of(self._store.plan(self.name, 0), self.scenario)
            policy = settings.make(self.scenario, self._ordered_plans(), first)
            self._policy, self._following = policy, 0
        if row.snapshot_at > self._at:
            if row.snapshot:
                policy.restore(state_from_bytes(row.snapshot))
            self._follow(policy, self._store.followed(self.name, row.snapshot_at))
            self._at, self._open = row.snapshot_at, None
        for entry in self._store.entries_after(self.name, max(self._at, 0)):
            self._play(policy, entry)
            self._at = entry.number
        self._at = max(self._at, row.last)
        self._last_round = max(self._last_round, row.last_round)
        return policy

    def _play(self, policy: Policy, entry: Entry) -> None:
        """Tell the policy what it would have been told had it been there."""
        if entry.kind == "plan":
            self._follow(policy, entry.plan)
        elif entry.kind == "outcome":
            assert self._open is not None
            report = json_decoder(OutcomeReport).decode(entry.asked)
            policy.observe(outcome_of_report(self._open, report))
            self._open = None
        else:
            request = json_decoder(RoundRequest).decode(entry.asked)
            round_ = round_of_request(self.scenario, request, entry.round)
            _decided(policy, round_, losses_of_request(self.scenario, request))
            record = json_decoder(DecisionRecord).decode(entry.answer)
            self._open = decision_of_record(round_, record, RoundWeights.kept(entry.more))
            self._last_round = entry.round

    def _follow(self, policy: Policy, plan: int | None) -> None:
        if plan is not None and plan != self._following:
            policy.follow(plan_of(self._store.plan(self.name, plan), self.scenario))
            self._following = plan


def require_ready(row: Entry) -> None:
    """Raise an error unless the policy of a federation is made."""
    if row.state == "failed":
        raise Conflict(f"federation {row.name!r}: its policy could not be made: {row.error}")
    if row.state != "ready":
        raise NotReady(f"federation {row.name!r}: its policy is being made; ask again")


def _decided(policy: Policy, round_: Round, losses: dict[int, float]) -> Decision:
    """The policy's decision, with the losses that the request tells."""

    def told(clients: IntArray) -> FloatArray:
        return np.array([losses.get(number, np.nan) for number in clients.tolist()])

    announce_round(policy, round_, told)
    asked = time.perf_counter()
    answer = policy.decide(round_)
    decision_ms = 1000 * (time.perf_counter() - asked)
    return make_decision(round_, answer, method=policy.title, decision_ms=decision_ms)


def _entry_of(decision: Decision, request: RoundRequest, key: str | None) -> NewEntry:
    index = decision.round.index
    return NewEntry(
        "decision",
        index,
        key,
        asked=_asked(request, index),
        answer=msgspec.json.encode(decision.record()),
        more=RoundWeights.of(decision).to_keep(),
    )


def _asked(request: RoundRequest, index: int) -> bytes:
    return msgspec.json.encode(msgspec.structs.replace(request, round=index))
