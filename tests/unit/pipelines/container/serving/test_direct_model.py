"""Which packages are loaded without MLflow, and that neither it nor scikit-learn is imported then."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import xgboost as xgb
import yaml

from pipelines.container.serving import direct_model
from pipelines.container.serving.direct_model import MODEL_CODE, load_model
from pipelines.defaults.model import Model, Schema

FRAME = pd.DataFrame({"distance": [0.1, 0.5, 0.9, 0.2], "carrier": ["AA", "B", "B", "AA"], "label": [0, 1, 1, 0]})
KINDS = {"distance": "number", "carrier": "category"}
COLUMNS = [{"name": "distance", "type": "double"}, {"name": "carrier", "type": "string"}]
FLAVOR = {
    "model_code_path": f"/somewhere/{MODEL_CODE}",
    "config": {"module": "pipelines.defaults.model"},
    "artifacts": {"model": {"path": "artifacts/model"}},
}
PROGRAM = """
import sys
from pathlib import Path
from pipelines.container.inference import model_fn
assert type(model_fn(sys.argv[1]).model).__name__ == "DirectModel"
print({"mlflow", "sklearn", "xgboost"} & {*sys.modules})
import sklearn.base
"""


def train() -> Model:
    schema = Schema.fit(FRAME, {"features": KINDS, "label": "label"})
    return Model(xgb.train({"min_child_weight": 0, "nthread": 1}, schema.to_matrix(FRAME), 3), schema)


def write_package(folder: Path, columns: Any, **changes: Any) -> Path:
    """Write what MLflow writes for a package, as far as it is read."""
    train().save(folder / "artifacts" / "model")
    content = {
        "flavors": {"python_function": FLAVOR | changes},
        "metadata": {"key": ["date"]},
        "signature": {"inputs": json.dumps(columns)},
    }
    (folder / "MLmodel").write_text(yaml.safe_dump(content), encoding="utf-8")
    return folder


def test_package_with_the_default_code_is_loaded_without_slow_imports(tmp_path: Path) -> None:
    model = load_model(write_package(tmp_path, COLUMNS))
    assert model is not None and model.metadata.metadata == {"key": ["date"]}
    assert [(feature.name, feature.type.name, feature.type.to_pandas()) for feature in model.features] == [
        ("distance", "double", "float64"),
        ("carrier", "string", "object"),
    ]
    assert model.predict(FRAME).tolist() == train().score(FRAME).tolist()
    command = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    process = subprocess.run(command, cwd=Path(__file__).parents[5], capture_output=True, text=True)
    assert (process.returncode, process.stdout) == (0, "{'xgboost'}\n"), process.stderr


@pytest.mark.parametrize(
    ("columns", "changes"),
    [
        ([{"name": "hour", "type": "long"}, COLUMNS[1]], {}),
        ([{"type": "tensor", "tensor-spec": {"dtype": "float32", "shape": [-1, 2]}}], {}),
        ([{"type": "double"}], {}),
        ([], {}),
        (COLUMNS, {"model_code_path": "/somewhere/pipelines/datasets/own/serving.py"}),
        (COLUMNS, {"model_code_path": None}),
    ],
)
def test_others_are_left_to_mlflow(
    columns: Any, changes: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(direct_model, "import_module", None)  # no code of the package runs
    assert load_model(write_package(tmp_path, columns, **changes)) is None
