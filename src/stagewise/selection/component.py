"""What policies, selectors and associators have in common: they may learn, and can be resumed."""

from typing import Any

from stagewise.outcomes import Outcome, State


class Component:
    """A policy or a part of one: the words for learning and resuming."""

    name: str = ""
    """What decisions call it; the class's name where it is empty."""

    uses_feedback: bool = False
    """Whether answers depend on what training gave; true of a class that has an `observe` or a `told` of
    its own and says nothing else. Without, rounds can be decided before they are trained, or once for
    all."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        learns = "observe" in vars(cls) or "told" in vars(cls)
        if learns and "uses_feedback" not in vars(cls):
            cls.uses_feedback = True

    def observe(self, outcome: Outcome) -> None:
        """Learn from what a round gave; called after every round, in order."""

    def state(self) -> State:
        """All that answers depend on beside the scenario, the plan, the seed and the round."""
        return {}

    def restore(self, state: State) -> None:
        """Be as when `state` was taken, whatever came since; an empty one is told like any other."""

    @property
    def title(self) -> str:
        """The name, or that of the class."""
        return self.name or type(self).__name__
