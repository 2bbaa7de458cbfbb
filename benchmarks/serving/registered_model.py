"""Train and register the model of flights for the serving benchmarks.

Run it in an empty folder: `python -m benchmarks.serving.registered_model`. LEEWAY_HOME, LEEWAY_PROJECT and
MLFLOW_TRACKING_URI name the home, the project and the MLflow server of the benchmark.
"""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path

import pandas as pd
import yaml

from pipelines import params
from pipelines.dataset import load_dataset
from pipelines.lake import Lake
from pipelines.settings import settings
from pipelines.steps import evaluate, preprocess, snapshot, train

CODE = Path(__file__).parents[2]
MODEL = "flights"
FIRST_DAY, DAYS, REQUESTED_DAY = dt.date(2013, 1, 1), 91, dt.date(2013, 3, 20)
"""First published day, number of published days, and the day whose flights are the raw requests."""


def main() -> None:
    """Publish the flights of a quarter, train the model of flights, register version 1, and write the requests."""
    sections = _prepare_project()
    dataset, lake = load_dataset(MODEL), Lake.open()
    source = dataset.open_source()
    for number in range(DAYS):
        day = FIRST_DAY + dt.timedelta(number)
        lake.write_partition(MODEL, day, source.read(day), dataset.key)
    snapshot.run(snapshot.SnapshotSpec.parse(sections["snapshot"], "benchmark"))
    preprocess.run(preprocess.PreprocessSpec.parse(sections["preprocess"], "benchmark"))
    train.run(train.TrainSpec.parse({"dataset": MODEL, **sections["train"]}, "benchmark"))
    evaluate.run(evaluate.EvaluateSpec(dataset=MODEL, model=MODEL))  # registers version 1
    _write_requests()


def _prepare_project() -> params.Sections:
    """Make a project that has no other model. Write the files of the working directory that the registration needs."""
    sections, project = params.load(CODE, MODEL), settings().project
    for name in (".git", "pipelines", "expectations", "dvc.yaml", "uv.lock"):
        (project / name).symlink_to(CODE / name)
    (project / "params.yaml").write_text(yaml.safe_dump(sections), encoding="utf-8")
    Path("dvc.lock").write_text("schema: '2.0'\n", encoding="utf-8")
    Path("params.yaml").write_text("train: {}\n", encoding="utf-8")
    return sections


def _write_requests() -> None:
    """Write the bodies of the requests: raw rows of a day for Leeway's server, computed features for MLflow's server.

    The features are those of as many flights at the beginning of the holdout, so they are not of the same day.
    """
    dataset = load_dataset(MODEL)
    rows = Lake.open().read_partition(MODEL, REQUESTED_DAY)
    hidden_columns = {dataset.label, *dataset.known_later}
    raw_rows = rows.select([name for name in rows.column_names if name not in hidden_columns]).to_pylist()
    raw_bodies = [json.dumps(row, default=lambda value: value.isoformat()) for row in raw_rows]
    Path("raw.json").write_text(json.dumps(raw_bodies), encoding="utf-8")
    holdout = pd.read_parquet("data/features/holdout/data.parquet")
    features = holdout[list(dataset.features)].head(len(raw_bodies))
    feature_bodies = [
        json.dumps({"dataframe_split": json.loads(features.iloc[[number]].to_json(orient="split"))})
        for number in range(len(features))
    ]
    Path("features_split.json").write_text(json.dumps(feature_bodies), encoding="utf-8")


if __name__ == "__main__":
    main()
