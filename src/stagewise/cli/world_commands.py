"""Commands that make the world: `stagewise scenario ...` and `stagewise availability`."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

import stagewise
from stagewise.cli.options import Output, Seed, option, with_options
from stagewise.errors import StagewiseError, shown

if TYPE_CHECKING:
    from stagewise.world.generate import SystemParameters

scenario_app = typer.Typer(
    help="Make a scenario: clients, edge servers and links.", no_args_is_help=True
)

ScenarioOutput = Annotated[
    str,
    typer.Option(
        "--output", "-o", help="File to write; - is standard output, .safetensors the binary form."
    ),
]
TaskName = Annotated[
    str, typer.Option(help="mnist, fashion-mnist, cifar10, cifar100 or tiny-imagenet.")
]
RadiusM = Annotated[float, typer.Option(help="How far an edge reaches, in metres.")]


# Options that several commands share, by what they are about.
_ONLINE = {
    "p_min": option(float, 0.5, "Lower end of the online probabilities."),
    "p_max": option(float, 1.0, "Upper end of the online probabilities, not reached."),
}
_STEPS = {
    "local_steps": option(int, 5, "Local steps before an edge aggregates."),
    "edge_rounds": option(int, 3, "Edge aggregations in a round."),
}
_DATA_MIN = {"data_min": option(float, 2500, "Least data of an edge, in samples.")}
_LIMITS = {
    "kld_max": option(float, 0.2, "Largest divergence of an edge's labels, in nats."),
    "kld_risk": option(float, 0.3, "Tolerated risk that an edge breaks --kld-max."),
    "data_risk": option(float, 0.3, "Tolerated risk that an edge breaks --data-min."),
}
_WEIGHTS = {
    "delay_weight": option(float, 0.5, "Weight of a second of delay."),
    "energy_weight": option(float, 0.5, "Weight of a joule of energy."),
    "continuity_weight": option(float, 1.0, "Weight of continuity."),
}
_RANDOM_WEIGHTS = {
    "random_weights": option(
        bool, False, "Draw the weights of delay and energy, with sum 1.", "--random-weights"
    )
}
_DRAWN = _LIMITS | _WEIGHTS | _RANDOM_WEIGHTS


@scenario_app.command()
@with_options(_ONLINE | _STEPS | _DATA_MIN | _DRAWN)
def numeric(
    output: ScenarioOutput,
    clients: Annotated[int, typer.Option(help="Number of clients.")] = 93,
    edges: Annotated[int, typer.Option(help="Number of edge servers.")] = 4,
    seed: Seed = 0,
    task: TaskName = "mnist",
    radius_m: RadiusM = 300.0,
    **options: Any,
) -> None:
    """Clients spread over a square, edge servers on a jittered grid."""
    scenario = stagewise.generate.numeric(
        clients,
        edges,
        seed,
        task=task,
        radius_m=radius_m,
        parameters=_parameters(**options),
        weights=_weights(seed, **options),
        limits=_limits(**options),
    )
    stagewise.save_scenario(scenario, output)


@scenario_app.command("map")
@with_options(_ONLINE | _STEPS | _DATA_MIN | _DRAWN)
def from_map(
    output: ScenarioOutput,
    points: Annotated[
        str | None, typer.Option(help="CSV with latitude, longitude and kind (BS or USER).")
    ] = None,
    sites: Annotated[str | None, typer.Option(help="CSV of base stations.")] = None,
    users: Annotated[str | None, typer.Option(help="CSV of users.")] = None,
    window: Annotated[
        str | None, typer.Option(help="Only what lies in LAT0,LAT1,LON0,LON1 (degrees).")
    ] = None,
    seed: Seed = 0,
    task: TaskName = "mnist",
    radius_m: RadiusM = 300.0,
    shadowing_db: Annotated[
        float, typer.Option(help="Standard deviation of the shadowing, in decibels.")
    ] = 8.0,
    **options: Any,
) -> None:
    """Base stations and users at the places of a map: --points, or --sites with --users."""
    generate = stagewise.generate
    if points is not None and sites is None and users is None:
        sites = users = points
        both = generate.read_points(points)
        if both.kinds is None:
            raise StagewiseError(f"{points}: line 1: must have a kind column (BS or USER)")
        site_points, user_points = both.sites, both.users
    elif points is None and sites is not None and users is not None:
        site_points = generate.read_points(sites).sites
        user_points = generate.read_points(users).users
    else:
        raise StagewiseError("scenario map: must have --points, or --sites and --users")
    for name, path, chosen in (("base station", sites, site_points), ("user", users, user_points)):
        if len(chosen) == 0:
            raise StagewiseError(f"{path}: must have at least one {name}")
    rule = "must be four numbers LAT0,LAT1,LON0,LON1"
    scenario = generate.from_map(
        site_points,
        user_points,
        seed,
        window=None if window is None else _numbers("--window", window, rule, 4),  # type: ignore[arg-type]
        radius_m=radius_m,
        path_loss=generate.PathLoss(shadowing_db=shadowing_db),
        task=task,
        parameters=_parameters(**options),
        weights=_weights(seed, **options),
        limits=_limits(**options),
    )
    stagewise.save_scenario(scenario, output)


def _add_paper_set(number: int, name: str, option: tuple[Any, Any], help_text: str) -> None:
    @scenario_app.command(f"set{number}", help=f"Set {number} of the paper's Table II: {help_text}")
    @with_options({name: option} | _SEED_AND_TASK | _DRAWN)
    def paper_set(output: ScenarioOutput, **options: Any) -> None:
        scenario = stagewise.generate.paper_set(
            number,
            options.pop(name),
            options["seed"],
            task=options["task"],
            weights=_weights(**options),
            limits=_limits(**options),
        )
        stagewise.save_scenario(scenario, output)


_SEED_AND_TASK = {"seed": (Seed, 0), "task": (TaskName, "mnist")}
_add_paper_set(
    1, "clients", option(int, 100, "75, 80, ... or 120."), "the number of clients varies."
)
_add_paper_set(2, "edges", option(int, 4, "3, 4, ... or 7."), "the number of edge servers varies.")
_add_paper_set(
    3,
    "data_min",
    option(float, 2500, "2000, 2500, ... or 4000 samples."),
    "the least data of an edge varies.",
)
_add_paper_set(
    4,
    "p_min",
    option(float, 0.5, "0.4, 0.45, 0.5, 0.6 or 0.7."),
    "online probabilities are drawn from [p-min, 1).",
)


@scenario_app.command()
@with_options(_STEPS | _DATA_MIN | _LIMITS | _WEIGHTS)
def table(
    clients: Annotated[
        str, typer.Option(help="CSV: id, online_probability or history, label_0, label_1, ...")
    ],
    edges: Annotated[str, typer.Option(help="CSV: id, capacity, uplink_delay_s, uplink_energy_j.")],
    links: Annotated[str, typer.Option(help="CSV: client, edge, delay_s, energy_j (or gain).")],
    output: ScenarioOutput,
    reference: Annotated[
        str | None,
        typer.Option(
            help="Shares that an edge's labels should have, Q0,Q1,...; equal if left out."
        ),
    ] = None,
    window: Annotated[
        int | None, typer.Option(help="Rounds in a window of the estimate from histories [10].")
    ] = None,
    model_bits: Annotated[
        float | None, typer.Option(help="Size of the model; where links have gains.")
    ] = None,
    noise_w_per_hz: Annotated[
        float | None, typer.Option(help="Noise of the channels; where links have gains.")
    ] = None,
    **options: Any,
) -> None:
    """Clients, edge servers and measured links from three tables.

    The columns are those of the scenario file; an empty cell is a value that is not given. Without
    balance of labels: a column data in place of label_0, label_1, ..., and --kld-max inf.
    """
    rule = "must be numbers Q0,Q1,..."
    scenario = stagewise.Scenario.from_tables(
        clients,
        edges,
        links,
        local_steps=options["local_steps"],
        edge_rounds=options["edge_rounds"],
        model_bits=model_bits,
        noise_w_per_hz=noise_w_per_hz,
        weights=_weights(**options),
        limits=_limits(**options),
        reference=None if reference is None else _numbers("--reference", reference, rule),  # type: ignore[arg-type]
        window=window,
    )
    stagewise.save_scenario(scenario, output)


_OWN_OPTIONS = {
    "markov": {
        "mean_session": option(float, None, "markov: rounds a time online lasts in the mean [5]."),
    },
    "trace": {
        "trace": option(str, None, "trace: file of device states."),
        "trace_states": option(
            str, None, "trace: states_2 [default], states_3_battery50, states_3_battery75."
        ),
        "round_seconds": option(float, None, "trace: seconds from one round to the next [600]."),
    },
}
_FLUCTUATE = "Draw channel gains and CPUs again each round."


@with_options(
    {"model": option(str, "bernoulli", "bernoulli, markov or trace.")}
    | _OWN_OPTIONS["markov"]
    | _OWN_OPTIONS["trace"]
    | {"fluctuate": option(bool, False, _FLUCTUATE, "--fluctuate")}
)
def availability(
    scenario: Annotated[str, typer.Argument(help="Scenario file.")],
    rounds: Annotated[int, typer.Option(help="Number of rounds.")],
    output: Output,
    seed: Seed = 0,
    **options: Any,
) -> None:
    """Draw who is online in each round, as JSON Lines."""
    given = {name: value for name, value in options.items() if value is not None}
    model = given["model"]
    if model not in ("bernoulli", *_OWN_OPTIONS):
        raise StagewiseError(f"model = {shown(model)}: must be bernoulli, markov or trace")
    for other, own in _OWN_OPTIONS.items():
        for name in own if other != model else ():
            if name in given:
                raise StagewiseError(
                    f"--{name.replace('_', '-')} = {shown(given[name])}: must only be given with "
                    f"--model {other}"
                )
    if model == "trace" and "trace" not in given:
        raise StagewiseError("--trace: must be given with --model trace")

    from stagewise.simulator.participation import draw_rounds

    wanted = stagewise.Participation(**given)
    drawn = draw_rounds(wanted, stagewise.load_scenario(scenario), rounds, seed)
    stagewise.save_rounds(drawn, output)


def _parameters(
    p_min: float, p_max: float, local_steps: int, edge_rounds: int, **others: Any
) -> "SystemParameters":
    return stagewise.generate.SystemParameters(
        online_probability=(p_min, p_max), local_steps=local_steps, edge_rounds=edge_rounds
    )


def _weights(
    seed: int = 0,
    *,
    delay_weight: float,
    energy_weight: float,
    continuity_weight: float,
    random_weights: bool = False,
    **others: Any,
) -> "stagewise.Weights":
    if random_weights:
        return stagewise.generate.random_weights(seed, continuity_weight)
    return stagewise.Weights(delay=delay_weight, energy=energy_weight, continuity=continuity_weight)


def _limits(
    *, kld_max: float, kld_risk: float, data_risk: float, data_min: float = 2500, **others: Any
) -> "stagewise.Limits":
    return stagewise.Limits(
        kld_max=kld_max, data_min=data_min, kld_risk=kld_risk, data_risk=data_risk
    )


def _numbers(option: str, text: str, rule: str, count: int | None = None) -> tuple[float, ...]:
    """The numbers that an option names, with commas between."""
    try:
        numbers = tuple(float(part) for part in text.split(","))
    except ValueError:
        numbers = ()
    if not numbers or (count is not None and len(numbers) != count):
        raise StagewiseError(f"{option} = {shown(text)}: {rule}")
    return numbers
