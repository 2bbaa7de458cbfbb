"""Register a trained and evaluated model without a second evaluation."""

import json
from pathlib import Path
from typing import Any

import pandas as pd

from pipelines.steps import evaluate
from pipelines.system.files import sha256


def register(name: str, **fields: Any) -> str:
    """Register the candidate in data/ by the second half of the step `evaluate`; return its version.

    The first half takes 2 s of CPU time and wrote data/evaluation. That folder must belong to data/model and
    data/features, as in a copy of the fixture `trained`.

    Args:
        name: the model's name in the registry.
        fields: further fields of EvaluateSpec.
    """
    spec = evaluate.EvaluateSpec(register_as=name, **fields)
    metrics = json.loads((spec.evaluation / "metrics.json").read_text())
    result = evaluate.EvaluateResult(evaluation=spec.evaluation, metrics=metrics, model_digest=sha256(Path(spec.model)))
    train, holdout = (pd.read_parquet(spec.features / split / "data.parquet") for split in ("train", "holdout"))
    return evaluate._register(spec, result, holdout, len(train)).version
