"""Test that steps name the wrong file or setting on one line, with exit code 2, before they do any work."""

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pipelines.errors import DataError
from pipelines.steps import evaluate


def check_refusal(process: Any, *texts: str) -> None:
    """Check that the command ended with exit code 2 and one line, which has the texts."""
    lines = [line for line in process.err.splitlines() if line.startswith("error: ")]
    assert (process.code, len(lines)) == (2, 1), process.err
    assert all(text in lines[0] for text in texts), lines[0]
    forbidden_texts = ("Traceback", "bug of Leeway", "Stack trace", "usage:", "pydantic.dev")
    assert not any(text in process.err for text in forbidden_texts), process.err


@pytest.fixture
def outputs(home: Path, tmp_path: Path, trained: SimpleNamespace) -> Path:
    """Return a copy of the outputs of a real training, in the working directory."""
    shutil.copytree(trained.data, tmp_path / "data")
    return tmp_path / "data"


@pytest.mark.parametrize("content", [b"", b"garbage" * 99, b"{}", b"[1, 2]", b'{"a": 1}', b"\xff\xfe" * 40, None])
def test_a_model_that_cannot_be_read_is_an_error_without_a_stack_of_cpp(outputs: Path, content: bytes | None) -> None:
    path = outputs / "model/model.ubj"
    path.write_bytes(path.read_bytes()[:2_000] if content is None else content)
    with pytest.raises(DataError, match=r"^data/model holds no model of flights that can be read: ") as error:
        evaluate.run(
            evaluate.EvaluateSpec(
                dataset="flights",
            )
        )
    assert not any(text in str(error.value) for text in ("Stack trace", "[bt]", "/workspace/", ".cc:"))


@pytest.mark.parametrize("split", ["train", "holdout"])
def test_evaluate_names_cut_features(outputs: Path, split: str) -> None:
    path = outputs / f"features/{split}/data.parquet"
    path.write_bytes(path.read_bytes()[:-1_000])
    metrics = (outputs / "evaluation/metrics.json").read_bytes()
    with pytest.raises(DataError, match=rf"^data/features/{split}/data\.parquet cannot be read: .*Run `preprocess`"):
        evaluate.run(
            evaluate.EvaluateSpec(
                dataset="flights",
            )
        )
    assert (outputs / "evaluation/metrics.json").read_bytes() == metrics, "the earlier evaluation stays"


@pytest.mark.parametrize("text", ["true", "99999999999", "1.5", "x", "-1", "3"])
def test_a_wrong_window_is_refused_before_days_are_ingested(commands: Any, tmp_path: Path, text: str) -> None:
    """The last case is a valid number, but fewer days than the training needs."""
    window = "dataset: flights, as_of: 2013-01-25, holdout_days: 6, min_train_days: 4, missing: ingest"
    (tmp_path / "params.yaml").write_text(f"snapshot: {{{window}, train_days: {text}}}\n")
    process = commands.run_step("snapshot", env={"LEEWAY_PROJECT": str(tmp_path)})
    check_refusal(process, "would have 3 days, but needs 4" if text == "3" else "train_days")
    assert not list(tmp_path.glob("home/lake/leeway/*")), "a day was ingested"


def test_too_little_memory_is_one_line_that_says_what_to_set(commands: Any, tmp_path: Path) -> None:
    process = commands.run_step(
        "ingest", "--dataset", "flights", "--partition", "2013-01-01", env={"LEEWAY_MEMORY_MIB": "16"}
    )
    check_refusal(process, "DuckDB needs more memory", "Set LEEWAY_MEMORY_MIB higher")
    assert not list(tmp_path.glob("home/lake/leeway/*/data/*")), "nothing was staged"


@pytest.mark.parametrize(
    ("command", "variable", "value"),
    [
        (("snapshot", "--as-of", "2013-01-25"), "LEEWAY_WORKSPACE_DAYS", "abc"),
        (("registry", "events", "flights"), "MLFLOW_TRACKING_URI", "notaurl"),
        (("registry", "events", "flights"), "MLFLOW_TRACKING_URI", "http://host:8080extra"),
        (("evaluate", "--model", "flights"), "MLFLOW_TRACKING_URI", "ftp://host/x"),
        (("evaluate", "--trained-model", "s3://bucket/model.tar.gz"), "AWS_ENDPOINT_URL", "notaurl"),
    ],
)
def test_a_wrong_variable_is_named(commands: Any, command: tuple[str, ...], variable: str, value: str) -> None:
    check_refusal(commands.run_step(*command, env={variable: value}), f"{variable}: ", f"(got {value!r})")


@pytest.mark.parametrize(
    ("hyperparameters", "text"),
    [('{"num_round": 0}', "hyperparameter num_round: "), ('{"nonsense": 1}', "unknown hyperparameters: --nonsense 1")],
)
def test_a_wrong_hyperparameter_is_named(commands: Any, outputs: Path, hyperparameters: str, text: str) -> None:
    check_refusal(commands.run_step("train", "--hyperparameters", hyperparameters), text)
    assert (outputs / "model/model.ubj").exists(), "the earlier model stays"
