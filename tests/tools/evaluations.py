"""Write a small invented evaluation and its features, which the step `gate` reads."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.dataset import load_dataset
from pipelines.feature_files import FILE_NAME, METADATA_KEY

ROWS = 6_000


def write_evaluation(data: Path, rows: int = ROWS, signal: float = 1.0) -> None:
    """Write features/train, features/holdout and evaluation/ of a calibrated model into `data`.

    Args:
        data: folder.
        rows: number of rows of the holdout, and of the training.
        signal: how well the scores separate the labels. With 0 they do not.
    """
    flights, random = load_dataset("flights"), np.random.default_rng(3)
    log_odds = signal * random.normal(size=rows)
    probability = 1 / (1 + np.exp(1.4 - log_odds))
    frame = pd.DataFrame({"date": pd.Timestamp("2013-03-01") + pd.to_timedelta(np.arange(rows) * 28 // rows, unit="D")})
    frame = frame.assign(**{name: "x" for name in flights.key if name != "date"}).assign(flight=np.arange(rows))
    for name in flights.features:
        frame[name] = frame.get(name, 0.0)
    frame[flights.label] = random.random(rows) < probability
    for split in ("train", "holdout"):
        (data / "features" / split).mkdir(parents=True, exist_ok=True)
        table = pa.Table.from_pandas(frame)
        metadata = {**(table.schema.metadata or {}), METADATA_KEY: json.dumps({"dataset": flights.name}).encode()}
        pq.write_table(table.replace_schema_metadata(metadata), data / "features" / split / FILE_NAME)
    (data / "evaluation").mkdir(parents=True, exist_ok=True)
    frame[[*flights.key, flights.label]].assign(score=probability).to_parquet(
        data / "evaluation" / "predictions.parquet"
    )
