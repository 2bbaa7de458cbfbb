"""Write the model of the serving benchmarks as SageMaker's model.tar.gz, and the bodies of requests for it.

Run as a script after `benchmarks.serving.registered_model`, in the same folder.
"""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd

from benchmarks.serving.registered_model import MODEL
from pipelines.dataset import load_dataset
from pipelines.registry.artifacts import open_package
from pipelines.registry.versions import Registry
from pipelines.scoring.batch import pack_model

ROWS = 500
"""Number of requests, each with one row."""


def main() -> None:
    """Write model.tar.gz and features.json."""
    version = Registry.open().get_version(MODEL, "1")
    with open_package(version) as package:
        pack_model(package, Path("model.tar.gz"), MODEL, "1")
    features = pd.read_parquet("data/features/holdout/data.parquet")[list(load_dataset(MODEL).features)].head(ROWS)
    bodies = [features.iloc[[number]].to_json(orient="records") for number in range(len(features))]
    Path("features.json").write_text(json.dumps(bodies), encoding="utf-8")


if __name__ == "__main__":
    main()
