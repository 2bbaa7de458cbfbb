"""An evaluation and the features that it is of, small and made up: what the step `gate` reads."""

from pathlib import Path

import numpy as np
import pandas as pd

from pipelines.dataset import load_dataset

ROWS = 6_000


def write(data: Path, rows: int = ROWS, signal: float = 1.0) -> None:
    """`data` has features/train, features/holdout and evaluation/, of a calibrated model.

    Args:
        data: folder.
        rows: of the holdout, and of the training.
        signal: how much the model knows; 0: nothing.
    """
    flights, random = load_dataset("flights"), np.random.default_rng(3)
    known = signal * random.normal(size=rows)
    chance = 1 / (1 + np.exp(1.4 - known))
    frame = pd.DataFrame({"date": pd.Timestamp("2013-03-01") + pd.to_timedelta(np.arange(rows) * 28 // rows, unit="D")})
    frame = frame.assign(**{name: "x" for name in flights.key if name != "date"}).assign(flight=np.arange(rows))
    for name in flights.features:
        frame[name] = frame.get(name, 0.0)
    frame[flights.label] = random.random(rows) < chance
    for split in ("train", "holdout"):
        (data / "features" / split).mkdir(parents=True, exist_ok=True)
        frame.to_parquet(data / "features" / split / "data.parquet")
    (data / "evaluation").mkdir(parents=True, exist_ok=True)
    frame[[*flights.key, flights.label]].assign(score=chance).to_parquet(data / "evaluation" / "predictions.parquet")
