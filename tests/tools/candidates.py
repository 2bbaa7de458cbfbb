"""A trained and evaluated model becomes a version of the registry, without measuring it once more."""

import json
from pathlib import Path
from typing import Any

import pandas as pd

from pipelines.steps import evaluate
from pipelines.system.files import sha256


def register(name: str, **fields: Any) -> str:
    """The version that the candidate in data/ is of model `name`, by the second half of the step `evaluate`.

    For tests of what comes after it. The first half, 2 s of a processor, left data/evaluation: it must be of data/model
    and data/features, as in a copy of the fixture `trained`.
    """
    spec = evaluate.EvaluateSpec(register_as=name, **fields)
    metrics = json.loads((spec.evaluation / "metrics.json").read_text())
    result = evaluate.EvaluateResult(evaluation=spec.evaluation, metrics=metrics, model_digest=sha256(Path(spec.model)))
    train, holdout = (pd.read_parquet(spec.features / split / "data.parquet") for split in ("train", "holdout"))
    return evaluate._register(spec, result, holdout, len(train)).version
