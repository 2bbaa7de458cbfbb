"""Generate rows, write them to Parquet files, and fit a reference to them."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.monitoring.profiles import BinPolicy
from pipelines.monitoring.profiles.reference import Reference, fit_reference

KINDS = {"x": "number", "rain": "number", "day": "number", "same": "number", "g": "category", "h": "category"}


def generate_rows(count: int, seed: int, shift: float = 0.0) -> pd.DataFrame:
    """Generate rows with nulls, infinities, values at bin edges, unseen values, and labels that are not known yet."""
    random = np.random.default_rng(seed)
    x = np.round(random.normal(shift, 1, count), 2)
    special = np.array([np.nan, np.inf, -np.inf])
    x = np.where(random.random(count) < 0.1, random.choice(special, count), x)
    rain = np.where(random.random(count) < 0.8, 0.0, random.exponential(size=count))
    rain[random.random(count) < 0.05] = np.nan
    g = pd.Series(random.choice(["a", "b", "c", "d", "e", f"new{seed}"], count)).where(random.random(count) > 0.1)
    score = np.where(random.random(count) < 0.2, random.integers(0, 21, count) / 20, random.random(count))
    label = pd.array(random.random(count) < score, dtype="boolean")
    label[random.random(count) < 0.3] = pd.NA
    return pd.DataFrame({
        "x": x, "rain": rain, "day": random.integers(0, 7, count), "same": 4.0, "g": g,
        "h": random.choice(["p", "q"], count), "score": score, "late": label,
    })  # fmt: skip


@pytest.fixture(scope="package")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Reference:
    """Return a reference that is fitted to 2,000 rows."""
    path = tmp_path_factory.mktemp("reference") / "train.parquet"
    frame = generate_rows(2_000, 1)
    frame[frame["g"] != "new1"].to_parquet(path)
    return fit_reference(path, KINDS, "late", BinPolicy(values=3))


@pytest.fixture
def save(tmp_path: Path) -> Callable[[pd.DataFrame], Path]:
    """Return the function that writes rows to a new Parquet file and returns its path."""
    numbers = iter(range(1_000))

    def save_rows(frame: pd.DataFrame) -> Path:
        path = tmp_path / f"rows-{next(numbers)}.parquet"
        table = pa.Table.from_pandas(frame, preserve_index=False)
        if "x" in frame and frame["x"].dtype == float:  # keep NaN, which pandas would write as null
            table = table.set_column(frame.columns.get_loc("x"), "x", pa.array(frame["x"].to_numpy()))
        pq.write_table(table, path)
        return path

    return save_rows


@pytest.fixture(name="generate_rows", scope="session")
def _generate_rows() -> Callable[..., pd.DataFrame]:
    return generate_rows
