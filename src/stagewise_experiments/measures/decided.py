"""Rounds decided once: answers are kept in a folder, for every cell that would decide the same.

What a policy answers does not depend on training, unless it says that it uses feedback. So cells that
train other models, by other seeds, or again after a change of the code that trains, go by the answers
that are there, and decide as many rounds more as they need.
"""

import contextlib
import hashlib
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np

import stagewise
from stagewise import Answer, Decision, Plan, Policy, Round, Scenario, Triggers
from stagewise.deciding import wrapped
from stagewise.decisions import NamedWeights, contract_violation, make_decision
from stagewise.errors import StagewiseError
from stagewise.files import decode_json, read_bytes, write_bytes
from stagewise.loop import run_rounds
from stagewise.policies.registry import policy_name
from stagewise.selection.catalogue import LABEL_WEIGHTS
from stagewise_experiments.code_version import deciding_version, policy_version
from stagewise_experiments.machine import this_machine
from stagewise_experiments.measures.preparation import prepare_policy
from stagewise_experiments.setting import Setting

FORMAT: Literal["stagewise-decided/1"] = "stagewise-decided/1"
SECONDS = {"exact": 30.0}
"""What a decision may take, for methods that would go on for long; others end by themselves."""
_OF_A_ROUND = ("online", "cpu_hz", "gain", "delay_s", "energy_j", "up")


class _RoundAnswer(msgspec.Struct, frozen=True):
    """What was answered in a round."""

    round: str
    """A digest of the round."""
    edge_of: list[int]
    decision_ms: float
    lower_bound: float | None = None
    weights: NamedWeights = NamedWeights()


class _Answers(msgspec.Struct, kw_only=True):
    """The file: what was answered so far."""

    format: Literal["stagewise-decided/1"] = FORMAT
    inputs: dict[str, Any]
    uses_feedback: bool = False
    """The answers are those of a policy that was told of no training."""
    has_state: bool = False
    """Whether the policy remembers anything from round to round."""
    plans: list[tuple[int, float]] = []
    """Every plan: the round from which it is in force, and the milliseconds it took."""
    rounds: list[_RoundAnswer] = []


class DecidedRounds:
    """A cell's rounds and what its policy answers in them, from `folder` as far as that has it.

    Without a folder, or where it is not there on this machine, everything is decided here. Processes
    that need the same rounds at the same time wait for the one that decides them.
    """

    def __init__(
        self, setting: Setting, scenario: Scenario, rounds: Sequence[Round], folder: Path | None
    ) -> None:
        self._setting, self._scenario, self._rounds = setting, scenario, rounds
        self._inputs = _inputs_of(setting, scenario)
        self._path = None
        if folder is not None and folder.is_dir():
            key = hashlib.sha256(msgspec.json.encode(self._inputs, order="deterministic"))
            self._path = folder / f"{key.hexdigest()}.json"
        self._known = _Answers(inputs=self._inputs)
        self._policy: Policy | None = None
        self._next = 0
        """The round that comes next for `_policy`."""
        self._read()

    def decisions(self) -> list[Decision]:
        """What is decided in every round."""
        self._know(len(self._rounds))
        return [
            make_decision(
                round_,
                _answer_of(known, self._scenario),
                method=policy_name(self._setting.policy),
                decision_ms=known.decision_ms,
            )
            for round_, known in zip(self._rounds, self._known.rounds, strict=False)
        ]

    def policy(self) -> Policy:
        """A policy to train by: one that answers as decided, or the cell's own if it uses feedback."""
        with _alone_with(self._path):
            self._read()
            if self._known.uses_feedback:  # what it answered without training is of no use here
                self._known = _Answers(inputs=self._inputs)
            if not self._known.rounds and self._own_policy().uses_feedback:
                return self._own_policy()
            self._decide(1)
        return _AsDecided(self)

    def answer(self, index: int) -> Answer:
        """The answer in a round, which is decided now if it never was."""
        self._know(index + 1)
        return _answer_of(self._known.rounds[index], self._scenario)

    def decision_ms(self, index: int) -> float | None:
        """How long a round took when it was decided; None if the cell's own policy is trained by."""
        return None if self._known.uses_feedback else self._known.rounds[index].decision_ms

    def plan_ms(self, rounds: int) -> list[float]:
        """How long the plans took that were in force in the first `rounds`, in their order."""
        return [ms for first, ms in self._known.plans if first < max(1, rounds)]

    def save_plan(self, ordered_in: int, plan: Plan) -> None:
        """Take note of a plan that comes into force."""
        if self._next >= len(self._known.rounds):
            self._known.plans.append((self._next, plan.plan_ms))

    def load_plan(self, ordered_in: int, made_for: Scenario) -> Plan | None:
        return None

    def close(self) -> None:
        if self._policy is not None:
            self._policy.close()

    def _know(self, count: int) -> None:
        """Have the answers of the first `count` rounds."""
        if len(self._known.rounds) < count:
            with _alone_with(self._path):
                self._read()
                self._decide(count)

    def _decide(self, count: int) -> None:
        """Decide what is missing of the first `count` rounds.

        Whoever decides the rest needs the plan. So further rounds follow for as long as that took, at
        the most: where decisions are fast these are all, and nobody makes the plan again. The file is
        written whole, so only when the first `count` are there, and at the end.
        """
        if len(self._known.rounds) >= count:
            return
        policy = self._own_policy()
        while len(self._known.rounds) < count:
            self._decide_next(policy)
        self._write()
        until = time.perf_counter() + seconds_ahead(policy)
        while len(self._known.rounds) < len(self._rounds) and time.perf_counter() < until:
            self._decide_next(policy)
        if len(self._known.rounds) > count:
            self._write()

    def _decide_next(self, policy: Policy) -> None:
        """Decide the first round that is missing."""
        known = self._known.rounds
        if known and not self._known.has_state:
            self._next = len(known)  # nothing from the rounds between is needed
        for played in run_rounds(policy, self._own_rounds(len(known) + 1)):
            if played.decision.round.index == len(known):
                known.append(_answered(played.decision))
        self._known.has_state = bool(policy.state())

    def _own_rounds(self, count: int) -> Iterator[Round]:
        """The rounds up to `count` that are still to come for the cell's own policy."""
        while self._next < count:
            yield self._rounds[self._next]
            self._next += 1

    def _own_policy(self) -> Policy:
        if self._policy is None:
            policy = make_policy(self._setting, self._scenario)
            self._known.uses_feedback = policy.uses_feedback
            if policy.plan is not None and not self._known.plans:
                self._known.plans.append((0, policy.plan.plan_ms))
            # A policy without a plan has none to make again.
            every = None if policy.plan is None else self._setting.replan_every
            self._policy = wrapped(
                policy,
                diversity=self._setting.diversity,
                replanning=Triggers(every=every),
                store=self,
            )
        return self._policy

    def _read(self) -> None:
        """Take what is in the file, if it is more; a file that is damaged is as good as none."""
        if self._path is None:
            return
        try:
            found = decode_json(read_bytes(self._path), _Answers, str(self._path))
        except StagewiseError:
            return
        if found.inputs != self._inputs:
            return
        usable = 0
        for round_, answered in zip(self._rounds, found.rounds, strict=False):
            if not _fits(round_, answered):
                break
            usable += 1
        if usable > len(self._known.rounds):
            found.rounds = found.rounds[:usable]
            found.plans = [(first, ms) for first, ms in found.plans if first < usable]
            self._known = found

    def _write(self) -> None:
        if self._path is not None:
            # Where it cannot be written the next cell decides again.
            with contextlib.suppress(StagewiseError):
                write_bytes(self._path, msgspec.json.encode(self._known))


class _AsDecided(Policy):
    """Answers what was decided."""

    def __init__(self, decided: DecidedRounds) -> None:
        self._decided = decided

    def decide(self, round_: Round) -> Answer:
        return self._decided.answer(round_.index)


def seconds_ahead(policy: Policy) -> float:
    """How long rounds are decided ahead: as long as the policy's plan took."""
    return 0.0 if policy.plan is None else policy.plan.plan_ms / 1000


def make_policy(setting: Setting, scenario: Scenario) -> Policy:
    """The cell's policy for `scenario`, with all that it calls compiled."""
    name = policy_name(setting.policy)
    prepare_policy(name)
    return stagewise.make_policy(name, scenario, setting.seed, _seconds_for(name))


def _seconds_for(name: str) -> float | None:
    return SECONDS.get(name.removesuffix(LABEL_WEIGHTS))


def _inputs_of(setting: Setting, scenario: Scenario) -> dict[str, Any]:
    """What answers depend on besides the rounds, which have digests of their own."""
    name = policy_name(setting.policy)
    return {
        "scenario": scenario.sha256,
        "participation": msgspec.to_builtins(setting.participation),
        "policy": name,
        "seed": setting.seed,
        "seconds": _seconds_for(name),
        "diversity": setting.diversity,
        "replan_every": setting.replan_every,
        "code_version": deciding_version(),
        "policy_version": policy_version(name),
        # There times are the result, and must be this machine's.
        "machine": msgspec.to_builtins(this_machine()) if setting.measure == "decisions" else None,
    }


def _answered(decision: Decision) -> _RoundAnswer:
    return _RoundAnswer(
        round=_digest_of(decision.round),
        edge_of=decision.edge_of.tolist(),
        decision_ms=decision.decision_ms,
        lower_bound=decision.lower_bound,
        weights=decision.answer.named_weights(decision.scenario),
    )


def _answer_of(answered: _RoundAnswer, scenario: Scenario) -> Answer:
    return Answer(
        np.array(answered.edge_of, dtype=np.int64),
        answered.lower_bound,
        *answered.weights.arrays(scenario),
    )


def _fits(round_: Round, answered: _RoundAnswer) -> bool:
    """Whether this was answered in that round, as far as can be seen."""
    if answered.round != _digest_of(round_):
        return False
    try:
        return contract_violation(round_, _answer_of(answered, round_.scenario)) is None
    except (StagewiseError, OverflowError):
        return False


def _digest_of(round_: Round) -> str:
    digest = hashlib.sha256()
    for name in _OF_A_ROUND:
        values = getattr(round_, name)
        digest.update(f"{name} {values is None}\n".encode())
        if values is not None:
            digest.update(values.tobytes())
    return digest.hexdigest()


@contextlib.contextmanager
def _alone_with(path: Path | None) -> Iterator[None]:
    """Keep other processes from deciding the same meanwhile; one that is killed keeps nobody out."""
    try:
        import fcntl
    except ImportError:  # not on Windows: they may decide twice
        path = None
    if path is None:
        yield
        return
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):  # a file system without locks, or read-only
            lock = stack.enter_context(path.with_suffix(".lock").open("wb"))
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
