"""A client: it says who it is, and trains when it is asked to."""

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from stagewise.flower import answer_query, round_of_query
from stagewise.randomness import generator

app = ClientApp()


@app.query("stagewise")
def who_are_you(message: Message, context: Context) -> Message:
    """Answer the roll-call; now and then this client is away, as real ones are.

    An app without such a pretence needs one line: `app.query("stagewise")(answer_query)`.
    """
    config = context.run_config
    draw = generator(
        int(config["seed"]), f"away {_name(context)}", round_of_query(message)
    ).random()
    return answer_query(message, context, available=bool(draw >= float(config["away"])))


@app.train()
def train(message: Message, context: Context) -> Message:
    """Train the model that came, and send it back."""
    # PyTorch is imported here: a node that only answers the roll-call starts faster without it.
    from stagewise_app import task
    from stagewise_app.scenario import make_scenario

    config = context.run_config
    seed = int(config["seed"])
    scenario = make_scenario(config)
    client = _number(context, scenario.clients.index)
    data = task.train_data(scenario, client, seed)
    model = task.make_model(seed)
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    losses = task.train(model, data, config, client, message.metadata.group_id)
    content = RecordDict(
        {
            "arrays": ArrayRecord(model.state_dict()),
            "metrics": MetricRecord(
                {
                    "num-examples": len(data[1]),
                    "train-loss": sum(losses) / len(losses),
                    # For policies that learn from them; they may be left out.
                    "loss-before": losses[0],
                    "loss-after": losses[-1],
                }
            ),
        }
    )
    return Message(content, reply_to=message)


def _name(context: Context) -> str:
    """Who this node is: `client-id` of its configuration, or the number Flower's simulation gives.

    Empty where it has neither: the answer to the roll-call then says so.
    """
    config = context.node_config
    return str(config.get("client-id", config.get("partition-id", "")))


def _number(context: Context, index: dict[str, int]) -> int:
    """The client's number in the scenario."""
    name = _name(context)
    return index[name] if name in index else int(name)
