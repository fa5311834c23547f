"""The server: a strategy that asks the policy, and a test set to see how good the model is."""

from flwr.app import ArrayRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp

from stagewise.flower import StagewiseStrategy
from stagewise_app.scenario import make_scenario
from stagewise_app.task import evaluate, make_model, test_data

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    config = context.run_config
    model = make_model(int(config["seed"]))
    data = test_data()
    strategy = StagewiseStrategy(
        make_scenario(config),
        policy=str(config["policy"]),
        seed=int(config["seed"]),
        edge_rounds=int(config["edge-rounds"]),
        answer_s=float(config["answer-seconds"]),
    )
    strategy.start(
        grid=grid,
        initial_arrays=ArrayRecord(model.state_dict()),
        num_rounds=int(config["num-server-rounds"]),
        timeout=float(config["round-seconds"]),
        evaluate_fn=lambda _, arrays: MetricRecord(evaluate(model, arrays, data)),
    )
    if config["out"]:
        strategy.save(str(config["out"]))
