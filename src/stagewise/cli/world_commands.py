"""Commands that make the world: `stagewise scenario ...` and `stagewise availability`."""

from typing import TYPE_CHECKING, Annotated

import typer

from stagewise.errors import StagewiseError, shown

if TYPE_CHECKING:
    from stagewise.world.generate import SystemParameters, Window
    from stagewise.world.scenario import Limits, Scenario, Weights

# Whatever needs NumPy is imported inside the commands, so that --help answers at once.

scenario_app = typer.Typer(
    help="Make a scenario: clients, edge servers and links.", no_args_is_help=True
)

Output = Annotated[
    str,
    typer.Option(
        "--output", "-o", help="File to write; - is standard output, .safetensors the binary form."
    ),
]
Seed = Annotated[int, typer.Option(help="Seed of every random draw.")]
TaskName = Annotated[
    str, typer.Option(help="mnist, fashion-mnist, cifar10, cifar100 or tiny-imagenet.")
]
RadiusM = Annotated[float, typer.Option(help="How far an edge reaches, in metres.")]
DataMin = Annotated[float, typer.Option(help="Least data of an edge, in samples.")]
KldMax = Annotated[float, typer.Option(help="Largest divergence of an edge's labels, in nats.")]
KldRisk = Annotated[float, typer.Option(help="Tolerated risk that an edge breaks --kld-max.")]
DataRisk = Annotated[float, typer.Option(help="Tolerated risk that an edge breaks --data-min.")]
DelayWeight = Annotated[float, typer.Option(help="Weight of a second of delay.")]
EnergyWeight = Annotated[float, typer.Option(help="Weight of a joule of energy.")]
ContinuityWeight = Annotated[float, typer.Option(help="Weight of continuity.")]
RandomWeights = Annotated[
    bool, typer.Option("--random-weights", help="Draw the weights of delay and energy, with sum 1.")
]
PMin = Annotated[float, typer.Option(help="Lower end of the online probabilities.")]
PMax = Annotated[float, typer.Option(help="Upper end of the online probabilities, not reached.")]
LocalSteps = Annotated[int, typer.Option(help="Local steps before an edge aggregates.")]
EdgeRounds = Annotated[int, typer.Option(help="Edge aggregations in a round.")]


@scenario_app.command()
def numeric(
    output: Output,
    clients: Annotated[int, typer.Option(help="Number of clients.")] = 93,
    edges: Annotated[int, typer.Option(help="Number of edge servers.")] = 4,
    seed: Seed = 0,
    task: TaskName = "mnist",
    radius_m: RadiusM = 300.0,
    p_min: PMin = 0.5,
    p_max: PMax = 1.0,
    local_steps: LocalSteps = 5,
    edge_rounds: EdgeRounds = 3,
    data_min: DataMin = 2500,
    kld_max: KldMax = 0.2,
    kld_risk: KldRisk = 0.3,
    data_risk: DataRisk = 0.3,
    delay_weight: DelayWeight = 0.5,
    energy_weight: EnergyWeight = 0.5,
    continuity_weight: ContinuityWeight = 1.0,
    random_weights: RandomWeights = False,
) -> None:
    """Clients spread over a square, edge servers on a jittered grid."""
    from stagewise.world.generate import numeric as generate

    scenario = generate(
        clients,
        edges,
        seed,
        task=task,
        radius_m=radius_m,
        parameters=_parameters(p_min, p_max, local_steps, edge_rounds),
        weights=_weights(delay_weight, energy_weight, continuity_weight, random_weights, seed),
        limits=_limits(kld_max, kld_risk, data_risk, data_min),
    )
    _save(scenario, output)


@scenario_app.command("map")
def from_map(
    output: Output,
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
    p_min: PMin = 0.5,
    p_max: PMax = 1.0,
    local_steps: LocalSteps = 5,
    edge_rounds: EdgeRounds = 3,
    data_min: DataMin = 2500,
    kld_max: KldMax = 0.2,
    kld_risk: KldRisk = 0.3,
    data_risk: DataRisk = 0.3,
    delay_weight: DelayWeight = 0.5,
    energy_weight: EnergyWeight = 0.5,
    continuity_weight: ContinuityWeight = 1.0,
    random_weights: RandomWeights = False,
) -> None:
    """Base stations and users at the places of a map: --points, or --sites with --users."""
    from stagewise.world.generate import PathLoss, read_points
    from stagewise.world.generate import from_map as generate

    if points is not None and sites is None and users is None:
        sites = users = points
        both = read_points(points)
        if both.kinds is None:
            raise StagewiseError(f"{points}: line 1: must have a kind column (BS or USER)")
        site_points, user_points = both.sites, both.users
    elif points is None and sites is not None and users is not None:
        site_points, user_points = read_points(sites).sites, read_points(users).users
    else:
        raise StagewiseError("scenario map: must have --points, or --sites and --users")
    for name, path, chosen in (("base station", sites, site_points), ("user", users, user_points)):
        if len(chosen) == 0:
            raise StagewiseError(f"{path}: must have at least one {name}")
    scenario = generate(
        site_points,
        user_points,
        seed,
        window=None if window is None else _window(window),
        radius_m=radius_m,
        path_loss=PathLoss(shadowing_db=shadowing_db),
        task=task,
        parameters=_parameters(p_min, p_max, local_steps, edge_rounds),
        weights=_weights(delay_weight, energy_weight, continuity_weight, random_weights, seed),
        limits=_limits(kld_max, kld_risk, data_risk, data_min),
    )
    _save(scenario, output)


@scenario_app.command()
def set1(
    output: Output,
    clients: Annotated[int, typer.Option(help="75, 80, ... or 120.")] = 100,
    seed: Seed = 0,
    task: TaskName = "mnist",
    kld_max: KldMax = 0.2,
    kld_risk: KldRisk = 0.3,
    data_risk: DataRisk = 0.3,
    delay_weight: DelayWeight = 0.5,
    energy_weight: EnergyWeight = 0.5,
    continuity_weight: ContinuityWeight = 1.0,
    random_weights: RandomWeights = False,
) -> None:
    """Set 1 of the paper's Table II: the number of clients varies."""
    weights = _weights(delay_weight, energy_weight, continuity_weight, random_weights, seed)
    _paper_set(output, 1, clients, seed, task, weights, _limits(kld_max, kld_risk, data_risk))


@scenario_app.command()
def set2(
    output: Output,
    edges: Annotated[int, typer.Option(help="3, 4, ... or 7.")] = 4,
    seed: Seed = 0,
    task: TaskName = "mnist",
    kld_max: KldMax = 0.2,
    kld_risk: KldRisk = 0.3,
    data_risk: DataRisk = 0.3,
    delay_weight: DelayWeight = 0.5,
    energy_weight: EnergyWeight = 0.5,
    continuity_weight: ContinuityWeight = 1.0,
    random_weights: RandomWeights = False,
) -> None:
    """Set 2 of the paper's Table II: the number of edge servers varies."""
    weights = _weights(delay_weight, energy_weight, continuity_weight, random_weights, seed)
    _paper_set(output, 2, edges, seed, task, weights, _limits(kld_max, kld_risk, data_risk))


@scenario_app.command()
def set3(
    output: Output,
    data_min: Annotated[float, typer.Option(help="2000, 2500, ... or 4000 samples.")] = 2500,
    seed: Seed = 0,
    task: TaskName = "mnist",
    kld_max: KldMax = 0.2,
    kld_risk: KldRisk = 0.3,
    data_risk: DataRisk = 0.3,
    delay_weight: DelayWeight = 0.5,
    energy_weight: EnergyWeight = 0.5,
    continuity_weight: ContinuityWeight = 1.0,
    random_weights: RandomWeights = False,
) -> None:
    """Set 3 of the paper's Table II: the least data of an edge varies."""
    weights = _weights(delay_weight, energy_weight, continuity_weight, random_weights, seed)
    _paper_set(output, 3, data_min, seed, task, weights, _limits(kld_max, kld_risk, data_risk))


@scenario_app.command()
def set4(
    output: Output,
    p_min: Annotated[float, typer.Option(help="0.4, 0.45, 0.5, 0.6 or 0.7.")] = 0.5,
    seed: Seed = 0,
    task: TaskName = "mnist",
    kld_max: KldMax = 0.2,
    kld_risk: KldRisk = 0.3,
    data_risk: DataRisk = 0.3,
    delay_weight: DelayWeight = 0.5,
    energy_weight: EnergyWeight = 0.5,
    continuity_weight: ContinuityWeight = 1.0,
    random_weights: RandomWeights = False,
) -> None:
    """Set 4 of the paper's Table II: online probabilities are drawn from [p-min, 1)."""
    weights = _weights(delay_weight, energy_weight, continuity_weight, random_weights, seed)
    _paper_set(output, 4, p_min, seed, task, weights, _limits(kld_max, kld_risk, data_risk))


def availability(
    scenario: Annotated[str, typer.Argument(help="Scenario file.")],
    rounds: Annotated[int, typer.Option(help="Number of rounds.")],
    output: Annotated[str, typer.Option("--output", "-o", help="File to write; - is stdout.")],
    seed: Seed = 0,
    model: Annotated[str, typer.Option(help="bernoulli, markov or trace.")] = "bernoulli",
    mean_session: Annotated[
        float | None, typer.Option(help="markov: rounds a time online lasts in the mean [5].")
    ] = None,
    trace: Annotated[str | None, typer.Option(help="trace: file of device states.")] = None,
    trace_states: Annotated[
        str | None,
        typer.Option(help="trace: states_2 [default], states_3_battery50, states_3_battery75."),
    ] = None,
    round_seconds: Annotated[
        float | None, typer.Option(help="trace: seconds from one round to the next [600].")
    ] = None,
    fluctuate: Annotated[
        bool, typer.Option("--fluctuate", help="Draw channel gains and CPUs anew each round.")
    ] = False,
) -> None:
    """Draw who is online in each round, as JSON Lines."""
    own = {
        "mean_session": ("markov", mean_session),
        "trace": ("trace", trace),
        "trace_states": ("trace", trace_states),
        "round_seconds": ("trace", round_seconds),
    }
    given = {name: value for name, (_, value) in own.items() if value is not None}
    if model not in ("bernoulli", "markov", "trace"):
        raise StagewiseError(f"model = {shown(model)}: must be bernoulli, markov or trace")
    for name, value in given.items():
        if own[name][0] != model:
            raise StagewiseError(
                f"--{name.replace('_', '-')} = {shown(value)}: must only be given with --model "
                f"{own[name][0]}"
            )
    if model == "trace" and trace is None:
        raise StagewiseError("--trace: must be given with --model trace")

    from stagewise.world import participation
    from stagewise.world.fluctuation import fluctuate as fluctuating
    from stagewise.world.rounds import save_rounds
    from stagewise.world.scenario_file import load_scenario
    from stagewise.world.trace import load_trace

    world = load_scenario(scenario)
    if trace is not None:
        drawn = participation.trace(
            world,
            load_trace(trace, "states_2" if trace_states is None else trace_states),
            rounds,
            seed,
            600.0 if round_seconds is None else round_seconds,
        )
    elif model == "markov":
        session = 5.0 if mean_session is None else mean_session
        drawn = participation.markov(world, rounds, seed, session)
    else:
        drawn = participation.bernoulli(world, rounds, seed)
    save_rounds(fluctuating(drawn, seed) if fluctuate else drawn, output)


def _paper_set(
    output: str,
    number: int,
    value: float,
    seed: int,
    task: str,
    weights: "Weights",
    limits: "Limits",
) -> None:
    from stagewise.world.generate import paper_set

    _save(paper_set(number, value, seed, task=task, weights=weights, limits=limits), output)


def _parameters(
    p_min: float, p_max: float, local_steps: int, edge_rounds: int
) -> "SystemParameters":
    from stagewise.world.generate import SystemParameters

    return SystemParameters(
        online_probability=(p_min, p_max), local_steps=local_steps, edge_rounds=edge_rounds
    )


def _weights(delay: float, energy: float, continuity: float, random: bool, seed: int) -> "Weights":
    from stagewise.world.generate import random_weights
    from stagewise.world.scenario import Weights

    if random:
        return random_weights(seed, continuity)
    return Weights(delay=delay, energy=energy, continuity=continuity)


def _limits(kld_max: float, kld_risk: float, data_risk: float, data_min: float = 2500) -> "Limits":
    from stagewise.world.scenario import Limits

    return Limits(kld_max=kld_max, data_min=data_min, kld_risk=kld_risk, data_risk=data_risk)


def _window(text: str) -> "Window":
    try:
        south, north, west, east = (float(part) for part in text.split(","))
    except ValueError:
        raise StagewiseError(
            f"--window = {shown(text)}: must be four numbers LAT0,LAT1,LON0,LON1"
        ) from None
    return south, north, west, east


def _save(scenario: "Scenario", output: str) -> None:
    from stagewise.world.scenario_file import save_scenario

    save_scenario(scenario, output)
