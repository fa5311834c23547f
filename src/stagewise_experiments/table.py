"""A result in words and numbers: the table, the paper's numbers beside ours, and the claims."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import product

from stagewise.runs.target import EVALUATIONS
from stagewise_experiments.document import Block, Bullets, Heading, Table, Text
from stagewise_experiments.experiment import Claim, Experiment, PaperValue, Point, Value
from stagewise_experiments.machine import Machine
from stagewise_experiments.names import dataset_name, policy_name
from stagewise_experiments.quantities import Quantity, estimate_text, quantity, tail_text
from stagewise_experiments.results import Result
from stagewise_experiments.series import Series, value_text
from stagewise_experiments.verdicts import Kind, Verdict, judge_claim, judge_value

LONG = 16
"""Tables with more rows are folded."""


@dataclass(frozen=True)
class Judged:
    """A result with all its verdicts."""

    series: Series
    values: list[tuple[PaperValue, Verdict]]
    claims: list[tuple[Claim, Verdict]]

    @property
    def result(self) -> Result:
        return self.series.result


def judge(result: Result) -> Judged:
    """Compare every number and claim of the experiment's file with the result."""
    series, experiment = Series(result), result.experiment
    return Judged(
        series,
        [(printed, judge_value(series, printed)) for printed in experiment.paper_values],
        [(claim, judge_claim(series, claim)) for claim in experiment.claims],
    )


def table_blocks(judged: Judged) -> list[Block]:
    """Everything about a result but its title and picture."""
    return [
        Text(judged.series.renamed(judged.result.experiment.about)),
        *_notes(judged),
        *_tables(judged),
        *_claims(judged),
        *_reasons(judged),
    ]


def title(judged: Judged) -> str:
    """With the paper's number of the figure, and the data set that really ran."""
    experiment = judged.result.experiment
    source = f" ({experiment.paper})" if experiment.paper else ""
    return f"{ran_title(judged)}{source}"


def ran_title(judged: Judged) -> str:
    """The experiment's title with the data set that ran, and what it stands in for."""
    declared = judged.result.experiment.title
    renamed = judged.series.renamed(declared)
    missing = ", ".join(dataset_name(real) for real in judged.result.stand_ins)
    return f"{renamed}, in place of {missing}" if renamed != declared and missing else renamed


def run_text(result: Result, intervals: bool = True) -> str:
    """`quick profile, MNIST; mean and 95% interval over 3 seeds (0-2)`."""
    seeds = result.seeds
    means = "mean and 95% interval" if intervals else "mean"
    if len(seeds) == 1:
        counted = f"one seed ({seeds[0]}){', so no intervals' if intervals else ''}"
    else:
        span = f"{seeds[0]}-{seeds[-1]}" if seeds[-1] - seeds[0] == len(seeds) - 1 else _list(seeds)
        counted = f"{means} over {len(seeds)} seeds ({span})"
    if len(seeds) != result.size.seeds:
        counted += f"; the profile has {result.size.seeds}"
    datasets = sorted({cell.setting.dataset for cell in result.cells})
    return f"{result.profile} profile, {_list(map(dataset_name, datasets))}; {counted}"


def _notes(judged: Judged) -> Iterator[Block]:
    result = judged.result
    for real, ran in result.stand_ins.items():
        declared = result.experiment.stand_ins.get(real)
        note = f" {declared.note}" if declared is not None and declared.note else ""
        yield Text(
            f"**Stand-in:** {dataset_name(real)} is not at hand; {dataset_name(ran)} ran in its "
            f"place, so the paper's numbers are not compared with ours.{note}"
        )
    if result.size.note:
        yield Text(f"**Note on this size:** {result.size.note}{_data_note(judged)}")
    if result.failed:
        yield Text(
            f"**Failed:** {len(result.failed)} of {len(result.cells)} cells, which the numbers "
            f"leave out. The first: {result.failed[0].policy}, seed {result.failed[0].seed}: "
            f"{result.failed[0].error}"
        )
    details = [f"{run_text(result)[:1].upper()}{run_text(result)[1:]}."]
    if any("to_target" in name for name in result.experiment.quantities):
        cells = result.cells
        targets = sorted({c.setting.target_accuracy for c in cells} - {None}, key=lambda t: t or 0)
        rounds = sorted({c.setting.rounds for c in cells})
        if targets:
            details.append(
                f"The target is {_list(f'{100 * t:g}%' for t in targets if t)} test accuracy, in the "
                f"mean of {EVALUATIONS} successive evaluations, and counts as not reached after "
                f"{_list(rounds)} rounds."
            )
    details += _times(result)
    yield Text(" ".join(details), quiet=True)


def _data_note(judged: Judged) -> str:
    """That the paper's numbers are compared with a smaller data set's, where the size has its own."""
    compared = any(not verdict.kind.startswith("not ") for _, verdict in judged.values)
    return "".join(
        f" The paper's numbers are those of {dataset_name(real)}; ours, compared with them, are "
        f"those of {dataset_name(ran)}."
        for real, ran in judged.series.replaced.items()
        if compared and real not in judged.result.stand_ins
    )


def _times(result: Result) -> Iterator[str]:
    """What took the times, where the table has any."""
    shown = set(result.experiment.quantities)
    decisions = any(name.startswith("decision_ms") for name in shown)
    # Beside a run, Plan A may take several threads; where it alone is measured, it has one.
    several = "plan_s" in shown and result.experiment.measure in ("decisions", "training")
    if not decisions and "plan_s" not in shown:
        return
    cpus = " and ".join(dict.fromkeys(machine.cpu for machine in result.machines))
    if decisions or not several:
        yield f"Times are those of one thread of {cpus}{', Plan A apart' if several else ''}."
    else:
        yield f"Times are those of {cpus}."


def _tables(judged: Judged) -> Iterator[Block]:
    panel = next((p for p in judged.result.experiment.panels if p.form == "matrix"), None)
    if panel is not None and panel.x is not None and panel.y is not None:
        yield from _matrices(judged, panel.x, panel.y)
    else:
        yield _long_table(judged)
    rest = [(p, v) for p, v in judged.values if _row_of(judged.series, p) is None]
    if rest:
        yield Text("Other numbers of the paper:")
        yield Table(
            ["what", "ours", "the paper's", "verdict"],
            [[_what(judged.series, p), v.ours or "–", v.paper, f"**{v.kind}**"] for p, v in rest],
        )


def _columns(experiment: Experiment) -> list[Quantity]:
    """The quantities of the file; costs never without the share of what keeps the limits."""
    names = list(experiment.quantities)
    planned = experiment.measure in ("planning", "risk")
    kept = "planned_feasible" if planned else "feasible_share"
    if any(quantity(name).cost for name in names) and kept not in names:
        names.append(kept)
    return [quantity(name) for name in names]


def _long_table(judged: Judged) -> Table:
    """One row for each policy at each point."""
    series, experiment = judged.series, judged.result.experiment
    axes = series.open_axes()
    names = _columns(experiment)
    against = any(_row_of(series, printed) is not None for printed, _ in judged.values)
    head = [*(axis.label for axis in axes), "policy", *(name.title for name in names)]
    rows = []
    for point, policy in product(series.points, series.policies):
        row = [value_text(point[axis.name]) for axis in axes]
        row += [policy_name(policy)]
        row += [_entry(series, name.name, policy, point) for name in names]
        if against:
            row += _against_paper(judged, policy, point)
        rows.append(row)
    folded = f"Table, {len(rows)} rows" if len(rows) > LONG else ""
    return Table(
        head + (["the paper's", "verdict"] if against else []), rows, len(axes) + 1, folded
    )


def _against_paper(judged: Judged, policy: str, point: Point) -> list[str]:
    printed, verdicts = [], []
    for value, verdict in _values_at(judged, policy, point):
        several = len(judged.result.experiment.quantities) > 1
        name = f"{quantity(value.quantity).label}: " if several else ""
        compared = value.relative_to or value.minus or value.growth_from
        printed.append(f"{name}{verdict.paper}")
        ours = f" (ours {verdict.ours})" if compared and verdict.ours else ""
        verdicts.append(f"**{verdict.kind}**{ours}")
    return ["\n".join(printed), "\n".join(verdicts)]


def _matrices(judged: Judged, x: str, y: str) -> Iterator[Block]:
    """As the paper prints them: an entry has all quantities, ours over the paper's."""
    series = judged.series
    names = _columns(judged.result.experiment)
    printed = dict.fromkeys(quantity(value.quantity).label for value, _ in judged.values)
    others = [axis.name for axis in series.open_axes() if axis.name not in (x, y)]
    slices = product(*(series.axis_values(name) for name in others))
    yield Text(
        f"Entries: {' / '.join(name.title for name in names)}"
        + (f"; below, the paper's {' / '.join(printed)}." if printed else "."),
        quiet=True,
    )
    for place, policy in product(list(slices), series.policies):
        at: Point = dict(zip(others, place, strict=True))
        where = "".join(f", {series.axis(name).label}: {value_text(at[name])}" for name in others)
        columns, rows = series.axis_values(x, at), series.axis_values(y, at)
        yield Text(f"**{policy_name(policy)}**{where}")
        yield Table(
            [f"{series.axis(y).label} \\ {series.axis(x).label}", *map(value_text, columns)],
            [
                [value_text(row)]
                + [_matrix_entry(judged, policy, {**at, y: row, x: c}) for c in columns]
                for row in rows
            ],
        )


def _matrix_entry(judged: Judged, policy: str, at: Point) -> str:
    points = judged.series.points_at(at)
    if not points:
        return ""
    names = _columns(judged.result.experiment)
    ours = " / ".join(_entry(judged.series, name.name, policy, points[0]) for name in names)
    values = _values_at(judged, policy, points[0])
    if not values:
        return ours
    kinds = list(dict.fromkeys(verdict.kind for _, verdict in values))
    paper = " / ".join(verdict.paper for _, verdict in values)
    return f"{ours}\n{paper} {' / '.join(f'**{kind}**' for kind in kinds)}"


def _entry(series: Series, name: str, policy: str, point: Point) -> str:
    found = series.estimate(name, policy, point)
    if found is None:
        return quantity(name).absent
    tail = tail_text(series.every(name, policy, point))
    return f"{estimate_text(found, quantity(name).share)}{tail}"


def _values_at(judged: Judged, policy: str, point: Point) -> list[tuple[PaperValue, Verdict]]:
    return [
        (printed, verdict)
        for printed, verdict in judged.values
        if printed.policy == policy and _row_of(judged.series, printed) == point
    ]


def _row_of(series: Series, printed: PaperValue) -> Point | None:
    """The one point the value is about; None where there is none, or more than one."""
    points = series.points_at(printed.at)
    return points[0] if len(points) == 1 and printed.policy in series.policies else None


def _claims(judged: Judged) -> Iterator[Block]:
    if judged.claims:
        yield Text("Claims:")
        yield Bullets([claim_text(claim, verdict) for claim, verdict in judged.claims])


def claim_text(claim: Claim, verdict: Verdict) -> str:
    """The verdict, the claim, what we found, and why."""
    source = "our target" if claim.ours else claim.source or "the paper"
    return f"**{verdict.kind}** {claim.text.rstrip('.')} ({source}). {found_text(verdict)}".rstrip()


def found_text(verdict: Verdict) -> str:
    """What we found, and why."""
    found = f"{verdict.ours[:1].upper()}{verdict.ours[1:]}." if verdict.ours else ""
    why = f"Why: {verdict.why.rstrip('.')}." if verdict.why else ""
    return f"{found} {why}".strip()


def _reasons(judged: Judged) -> Iterator[Block]:
    """Why numbers differ from the paper's, each reason once."""
    places: dict[tuple[Kind, str], list[str]] = {}
    for printed, verdict in judged.values:
        if verdict.why or verdict.kind == "differs":
            why = verdict.why
            places.setdefault((verdict.kind, why), []).append(_what(judged.series, printed))
    if places:
        yield Text("About the paper's numbers:")
        yield Bullets(
            [
                f"**{kind}** {whats[0] if len(whats) == 1 else f'{len(whats)} numbers'}: {why}"
                for (kind, why), whats in places.items()
            ]
        )


def _what(series: Series, printed: PaperValue) -> str:
    place = ", ".join(f"{name} = {value_text(value)}" for name, value in printed.at.items())
    return f"{policy_name(printed.policy)}, {quantity(printed.quantity).label}" + (
        f", {place}" if place else ""
    )


def markdown_blocks(judged: Judged) -> list[Block]:
    """The experiment's own file."""
    ran_on = ". ".join(map(machine_text, judged.result.machines))
    ran_with = f"Code version {judged.result.code_version}. {ran_on}."
    return [Heading(title(judged), 1), *table_blocks(judged), Text(ran_with, quiet=True)]


def counted(number: int, noun: str) -> str:
    """`1 seed`, `2 seeds`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def machine_text(machine: Machine) -> str:
    """What a reader of timings must know."""
    memory = f", {machine.memory_gb:g} GB" if machine.memory_gb else ""
    accelerator = f", {machine.accelerator}" if machine.accelerator else ""
    packages = ", ".join(f"{name} {found}" for name, found in machine.packages.items())
    return (
        f"{machine.cpu}, {counted(machine.cores, 'core')}{memory}{accelerator}, {machine.system}; "
        f"Python {machine.python}, {packages}"
    )


def _list(values: Iterable[Value]) -> str:
    return ", ".join(str(value) for value in values)
