"""Plans in the store: their files byte for byte, and back."""

from stagewise.files import decode_json
from stagewise.plans import Plan, PlanRecord, encode_plan, plan_from_record
from stagewise.pool.library_file import decode_library, encode_library, library_name
from stagewise.serve.store import Entry, Store
from stagewise.world.scenario import Scenario

PLAN_FILE = "plan.json"
LIBRARY_FILE = library_name(PLAN_FILE)


def keep_plan(
    store: Store, federation: str, created: float, plan: Plan, ordered_in: int | None = None
) -> int:
    """Keep a plan with its library; its number. The federation must be the one created then."""
    library = None if plan.library is None else encode_library(plan.library)
    content = encode_plan(plan, None if library is None else LIBRARY_FILE)
    return store.add_plan(federation, created, content, library, plan.scenario.sha256, ordered_in)


def plan_of(row: Entry, scenario: Scenario) -> Plan:
    """The plan in a row of the store, for `scenario`.

    One that was made with newer estimates serves the scenario that the rounds belong to.
    """
    record = decode_json(row.content, PlanRecord, PLAN_FILE)
    record.scenario_sha256 = scenario.sha256
    library = None
    if row.library is not None:
        library = decode_library(row.library, scenario, LIBRARY_FILE)
    return plan_from_record(record, scenario, PLAN_FILE, library)


class OrderedPlans:
    """The plans that a policy orders while rounds go by; a `PlanStore`."""

    def __init__(self, store: Store, federation: str, created: float) -> None:
        self._store, self._federation, self._created = store, federation, created

    def save_plan(self, ordered_in: int, plan: Plan) -> None:
        keep_plan(self._store, self._federation, self._created, plan, ordered_in)

    def load_plan(self, ordered_in: int, made_for: Scenario) -> Plan | None:
        row = self._store.ordered_plan(self._federation, ordered_in)
        return None if row is None else plan_of(row, made_for)
