"""Test that the training script refuses a wrong hyperparameter or channel with an error of one line."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.defaults import training
from pipelines.defaults.arguments import InvalidInput, parse_arguments
from pipelines.defaults.channels import read_channel
from tests.tools import forking

INVALID = {
    "num_round": ["0", "-1", "x", "1.5", "99999999999", "nan", "", "True"],
    "early_stopping_rounds": ["-1", "x"],
    "max_depth": ["-1", "1.5"],
    "eta": ["-1", "x", "nan", "inf", "1e300"],
    "min_child_weight": ["-0.1", "nan"],
    "reg_lambda": ["-1"],
    "seed": ["-1", "1.5", "99999999999"],
    "nthread": ["-1"],
    "checkpoint_s": ["-1", "nan"],
    "checkpoint_rounds": ["-1"],
    "keep_checkpoints": ["0", "x"],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in INVALID.items() for value in values])
def test_a_wrong_hyperparameter_is_named(name: str, value: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(
        InvalidInput, match=rf"^hyperparameter {name}: it must be a (whole )?number from [01] to \d+, but is"
    ):
        parse_arguments([f"--{name}", value])
    assert capsys.readouterr() == ("", ""), "argparse prints its usage"


@pytest.mark.parametrize("text", ["0.1", "0.1,0.9", "0,0.5", "0.5,1", "0.5,0.5", "x,0.5", "nan,0.5", "[0.1, 0.9]"])
def test_wrong_quantiles_are_named(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"^hyperparameter quantiles: it must be different numbers between 0 and 1"):
        parse_arguments(["--quantiles", text])


@pytest.mark.parametrize("text", ["0.9,0.1,0.5", "[0.1, 0.5, 0.9]"])
def test_quantiles_are_a_list_as_text_or_as_json(text: str) -> None:
    assert parse_arguments(["--quantiles", text]).quantiles == [0.1, 0.5, 0.9]
    assert parse_arguments(["--quantiles", "[]"]).quantiles == []


@pytest.mark.parametrize("arguments", [["--nonsense", "3"], ["--num_rou", "3"], ["word"]])
def test_an_unknown_hyperparameter_is_refused(arguments: list[str]) -> None:
    with pytest.raises(InvalidInput, match=f"^unknown hyperparameters: {' '.join(arguments)}. Use one of: num_round, "):
        parse_arguments(arguments)


def test_valid_hyperparameters_are_accepted() -> None:
    """This is the negative control."""
    values = {
        "num_round": 1,
        "eta": 0.3,
        "min_child_weight": 0.0,
        "seed": 0,
        "checkpoint_s": 0.0,
        "keep_checkpoints": 1,
    }
    arguments = parse_arguments([part for name, value in values.items() for part in (f"--{name}", str(value))])
    assert {name: getattr(arguments, name) for name in values} == values


def test_an_empty_variable_of_a_folder_counts_as_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SM_MODEL_DIR", "")
    monkeypatch.setenv("SAGEMAKER_BASE_DIR", "/base")
    assert parse_arguments([]).model_dir == Path("/base/model")


DAMAGES: dict[str, Callable[[Path], object]] = {
    "cut": lambda path: path.write_bytes(path.read_bytes()[:300]),
    "empty": lambda path: path.write_bytes(b""),
    "garbage": lambda path: path.write_bytes(b"\xff\xfe" * 200),
    "missing": lambda path: path.unlink(),
    "a folder": lambda path: (path.unlink(), path.mkdir()),
    "without a description": lambda path: pq.write_table(pa.table({"x": [1]}), path),
    "with a wrong description": lambda path: pq.write_table(
        pa.table({"x": [1]}).replace_schema_metadata({"leeway": "{"}), path
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_channel_is_named(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "data.parquet"
    pq.write_table(pa.table({"x": list(range(1_000))}).replace_schema_metadata({"leeway": "{}"}), path)
    assert len(read_channel(tmp_path)[0]) == 1_000
    DAMAGES[damage](path)
    with pytest.raises(InvalidInput, match=r"data\.parquet cannot be read: .+\. The step `preprocess` writes it\.$"):
        read_channel(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("case", ["hyperparameter", "quantiles", "channel", "other features"])
def test_the_failure_file_has_the_line(tmp_path: Path, case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """SageMaker shows the file as the job's FailureReason. The exit code is 1, as that of each failed training."""
    for name in ("train", "validation"):
        (tmp_path / "input/data" / name).mkdir(parents=True)
        table = pa.table({"x": [1.0], "late": [True]}).replace_schema_metadata({"leeway": "{}"})
        pq.write_table(table, tmp_path / "input/data" / name / "data.parquet")
    (tmp_path / "output").mkdir()
    monkeypatch.setenv("SAGEMAKER_BASE_DIR", str(tmp_path))
    if case == "channel":
        shutil.rmtree(tmp_path / "input/data/validation")
    arguments = {"hyperparameter": ["--num_round", "0"], "quantiles": ["--quantiles", "0.5"]}.get(case, [])
    environment = {**os.environ, "PYTHONPATH": str(Path(training.__file__).parents[2])}
    process = subprocess.run(
        [forking.ensure_stand_in(), training.__file__, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    failure = (tmp_path / "output/failure").read_text()
    assert process.returncode == 1, process.stderr
    assert process.stderr.splitlines()[-1:] == [failure]
    assert "Traceback" not in process.stderr
    expected = {"hyperparameter": "hyperparameter num_round: ", "channel": str(tmp_path), "other features": "a channel"}
    expected["quantiles"] = "hyperparameter quantiles: models of the task binary have no quantiles. Leave it out."
    assert failure.startswith(expected[case])
