"""A fit in MLflow: parameters, the losses of every epoch, metrics, the model file and the report.

Needs ``pip install mlflow`` (or the small mlflow-skinny with sqlalchemy and alembic).
"""

import sys
import tempfile
from pathlib import Path
from typing import Any

import mlflow

import usnrt
from usnrt import USNRTRegressor
from usnrt.datasets import make_heteroscedastic


def log_epoch(event: Any) -> None:
    """A callback: one point in MLflow's chart of the node's network."""
    mlflow.log_metric(f"{event.node} {event.network} valid loss", event.valid_loss, step=event.epoch)


def main(folder: str) -> None:
    """Log one run below a folder."""
    mlflow.set_tracking_uri(f"sqlite:///{folder}/mlflow.db")
    experiment = mlflow.create_experiment("usnrt", artifact_location=(Path(folder) / "artifacts").as_uri())
    train, test = (make_heteroscedastic("piecewise", n, random_state=n) for n in (1000, 500))
    with mlflow.start_run(experiment_id=experiment) as run:
        model = USNRTRegressor(min_samples_leaf=250, max_epochs=15, random_state=0, callbacks=[log_epoch])
        mlflow.log_params({name: str(value) for name, value in model.get_params().items() if name != "callbacks"})
        model.fit(train.data, train.target)
        measures = usnrt.evaluate(model, test.data, test.target)
        mlflow.log_metrics(dict(zip(measures["metric"].tolist(), measures["value"].tolist())))
        with tempfile.TemporaryDirectory() as scratch:
            model.save(Path(scratch) / "model.usnrt")
            usnrt.report(model, test.data, test.target, Path(scratch) / "report.html")
            mlflow.log_artifacts(scratch)
    stored = mlflow.get_run(run.info.run_id)
    print(f"run {stored.info.run_name}: CRPS {stored.data.metrics['crps']:.4f}")
    print(f"model: {next(Path(folder).rglob('model.usnrt'))}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())
