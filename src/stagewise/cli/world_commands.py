"""Commands that make the world: `stagewise scenario ...` and `stagewise availability`."""

from typing import Annotated, Any

import typer

import stagewise
from stagewise.cli.options import Output, Seed, option, with_options
from stagewise.errors import StagewiseError, shown

scenario_app = typer.Typer(
    help="Make a scenario: clients, edge servers and links.", no_args_is_help=True
)

ScenarioOutput = Annotated[
    str,
    typer.Option(
        "--output", "-o", help="File to write; - is standard output, .safetensors the binary form."
    ),
]
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
_SEED_AND_TASK = {
    "seed": (Seed, 0),
    "task": option(str, "mnist", "mnist, fashion-mnist, cifar10, cifar100 or tiny-imagenet."),
}
_RADIUS = {"radius_m": option(float, 300.0, "How far an edge reaches, in metres.")}
_DRAWN = _LIMITS | _WEIGHTS | _RANDOM_WEIGHTS
_PLACED = _SEED_AND_TASK | _RADIUS | _ONLINE | _STEPS | _DATA_MIN | _DRAWN


@scenario_app.command()
@with_options(
    {
        "clients": option(int, 93, "Number of clients."),
        "edges": option(int, 4, "Number of edge servers."),
        **_PLACED,
    }
)
def numeric(output: ScenarioOutput, **options: Any) -> None:
    """Clients spread over a square, edge servers on a jittered grid."""
    stagewise.save_scenario(stagewise.generate.numeric(**_arguments(options)), output)


@scenario_app.command("map")
@with_options(
    {
        "points": option(str, None, "CSV with latitude, longitude and kind (BS or USER)."),
        "sites": option(str, None, "CSV of base stations."),
        "users": option(str, None, "CSV of users."),
        "window": option(str, None, "Only what lies in LAT0,LAT1,LON0,LON1 (degrees)."),
        "shadowing_db": option(float, 8.0, "Standard deviation of the shadowing, in decibels."),
        **_PLACED,
    }
)
def from_map(output: ScenarioOutput, **options: Any) -> None:
    """Base stations and users at the places of a map: --points, or --sites with --users."""
    generate = stagewise.generate
    points, sites, users = (options.pop(name) for name in ("points", "sites", "users"))
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
    if options["window"] is not None:
        rule = "must be four numbers LAT0,LAT1,LON0,LON1"
        options["window"] = _numbers("--window", options["window"], rule, 4)
    path_loss = generate.PathLoss(shadowing_db=options.pop("shadowing_db"))
    scenario = generate.from_map(
        site_points, user_points, path_loss=path_loss, **_arguments(options)
    )
    stagewise.save_scenario(scenario, output)


def _add_paper_set(number: int, name: str, varied: tuple[Any, Any], help_text: str) -> None:
    @scenario_app.command(f"set{number}", help=f"Set {number} of the paper's Table II: {help_text}")
    @with_options({name: varied} | _SEED_AND_TASK | _DRAWN)
    def paper_set(output: ScenarioOutput, **options: Any) -> None:
        value = options.pop(name)
        scenario = stagewise.generate.paper_set(number, value, **_arguments(options))
        stagewise.save_scenario(scenario, output)


for _set in (
    (1, "clients", option(int, 100, "75, 80, ... or 120."), "the number of clients varies."),
    (2, "edges", option(int, 4, "3, 4, ... or 7."), "the number of edge servers varies."),
    (
        3,
        "data_min",
        option(float, 2500, "2000, 2500, ... or 4000 samples."),
        "the least data of an edge varies.",
    ),
    (
        4,
        "p_min",
        option(float, 0.5, "0.4, 0.45, 0.5, 0.6 or 0.7."),
        "online probabilities are drawn from [p-min, 1).",
    ),
):
    _add_paper_set(*_set)


@scenario_app.command()
@with_options(
    {
        "reference": option(
            str, None, "Shares that an edge's labels should have, Q0,Q1,...; equal if left out."
        ),
        "window": option(int, None, "Rounds in a window of the estimate from histories [10]."),
        "model_bits": option(float, None, "Size of the model; where links have gains."),
        "noise_w_per_hz": option(float, None, "Noise of the channels; where links have gains."),
        **_STEPS,
        **_DATA_MIN,
        **_LIMITS,
        **_WEIGHTS,
    }
)
def table(
    clients: Annotated[
        str, typer.Option(help="CSV: id, online_probability or history, label_0, label_1, ...")
    ],
    edges: Annotated[str, typer.Option(help="CSV: id, capacity, uplink_delay_s, uplink_energy_j.")],
    links: Annotated[str, typer.Option(help="CSV: client, edge, delay_s, energy_j (or gain).")],
    output: ScenarioOutput,
    **options: Any,
) -> None:
    """Clients, edge servers and measured links from three tables.

    The columns are those of the scenario file; an empty cell is a value that is not given. Without
    balance of labels: a column data in place of label_0, label_1, ..., and --kld-max inf.
    """
    if options["reference"] is not None:
        rule = "must be numbers Q0,Q1,..."
        options["reference"] = _numbers("--reference", options["reference"], rule)
    scenario = stagewise.Scenario.from_tables(clients, edges, links, **_arguments(options))
    stagewise.save_scenario(scenario, output)


_OWN_OPTIONS = {
    "markov": {
        "mean_session": option(float, None, "markov: rounds a time online lasts in the mean [5]."),
    },
    "trace": {
        "trace": option(str, None, "trace: file of device states."),
        "trace_states": option(
            str, None, "trace: states_2 (default), states_3_battery50, states_3_battery75."
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


def _arguments(options: dict[str, Any]) -> dict[str, Any]:
    """The options of a command as arguments of what makes the scenario."""
    made: dict[str, Any] = {}
    take = options.pop
    weights = {name: take(f"{name}_weight") for name in ("delay", "energy", "continuity")}
    if take("random_weights", False):
        made["weights"] = stagewise.generate.random_weights(options["seed"], weights["continuity"])
    else:
        made["weights"] = stagewise.Weights(**weights)
    limits = {name: take(name) for name in (*_LIMITS, *_DATA_MIN) if name in options}
    made["limits"] = stagewise.Limits(**limits)
    if "p_max" in options:
        made["parameters"] = stagewise.generate.SystemParameters(
            online_probability=(take("p_min"), take("p_max")),
            **{name: take(name) for name in _STEPS},
        )
    return options | made


def _numbers(option: str, text: str, rule: str, count: int | None = None) -> tuple[float, ...]:
    """The numbers that an option names, with commas between."""
    try:
        numbers = tuple(float(part) for part in text.split(","))
    except ValueError:
        numbers = ()
    if not numbers or (count is not None and len(numbers) != count):
        raise StagewiseError(f"{option} = {shown(text)}: {rule}")
    return numbers
