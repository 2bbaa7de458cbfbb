"""Write a small invented evaluation and its features, which the step `gate` reads."""

from pathlib import Path

import numpy as np
import pandas as pd

from pipelines.dataset import load_dataset

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
        frame.to_parquet(data / "features" / split / "data.parquet")
    (data / "evaluation").mkdir(parents=True, exist_ok=True)
    frame[[*flights.key, flights.label]].assign(score=probability).to_parquet(
        data / "evaluation" / "predictions.parquet"
    )
