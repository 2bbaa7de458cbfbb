"""Every step keeps the step contract: Spec, Result, run, a command with --help and --schema, JSON out."""

import json
import subprocess
import sys
from typing import Any

import pytest
from pydantic import BaseModel

from pipelines.cli import app
from pipelines.contract import RESERVED_OPTIONS, Result, Spec
from pipelines.steps import STEPS, load_result_class, load_run_function, load_spec_class, read_summary


def command_line(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """The exit code of `python -m pipelines ARGUMENTS`, in this process."""
    monkeypatch.setattr(sys, "argv", ["pipelines", *arguments])
    try:
        app.main()
    except SystemExit as left:
        return int(left.code or 0)
    return 0


def test_every_module_of_steps_is_a_step() -> None:
    from pathlib import Path

    import pipelines.steps

    folder = Path(pipelines.steps.__file__).parent
    assert {path.stem for path in folder.glob("*.py")} - {"__init__"} == set(STEPS)


@pytest.mark.parametrize("step", STEPS)
def test_step_has_spec_result_and_run(step: str) -> None:
    spec, result = load_spec_class(step), load_result_class(step)
    assert issubclass(spec, Spec)
    assert issubclass(result, Result)
    assert callable(load_run_function(step))
    assert read_summary(step)[-1] in ".," or read_summary(step)
    assert {"schema_version"} <= set(result.model_fields)
    undocumented = [
        name for name, field in {**spec.model_fields, **result.model_fields}.items() if not field.description
    ]
    assert undocumented == []


@pytest.mark.parametrize("step", STEPS)
def test_spec_refuses_an_unknown_key(step: str) -> None:
    from pipelines.errors import SpecError

    with pytest.raises(SpecError, match="unknown key nonsense"):
        load_spec_class(step).parse({"nonsense": 1}, step)


@pytest.mark.parametrize("step", STEPS)
def test_help_names_every_field(step: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert command_line(monkeypatch, step, "--help") == 0
    told = capsys.readouterr().out
    for name in (*load_spec_class(step).model_fields, "out", "spec", "schema"):
        assert f"--{name.replace('_', '-')}" in told


@pytest.mark.parametrize("step", STEPS)
def test_schema_is_json_of_spec_and_result(
    step: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command_line(monkeypatch, step, "--schema") == 0
    told = json.loads(capsys.readouterr().out)
    assert set(told) == {"spec", "result"}
    assert told["spec"]["additionalProperties"] is False
    assert set(told["spec"].get("properties", {})) == set(load_spec_class(step).model_fields)


@pytest.mark.filterwarnings("ignore:Field name:UserWarning")
def test_a_field_may_not_be_named_as_an_option_of_every_step() -> None:
    assert {"spec", "out", "schema", "help"} <= RESERVED_OPTIONS
    for name in sorted(RESERVED_OPTIONS):
        with pytest.raises(TypeError, match=name):
            type("TakenSpec", (Spec,), {"__annotations__": {name: str}, name: ""})
    type("FreeSpec", (Spec,), {"__annotations__": {"free": str}, "free": ""})


@pytest.mark.parametrize("step", STEPS)
def test_no_result_carries_data(step: str) -> None:
    """References and numbers only: no field is a table, bytes or a frame."""

    def names(model: type[BaseModel]) -> list[str]:
        return [str(field.annotation) for field in model.model_fields.values()]

    assert not [one for one in names(load_result_class(step)) if "DataFrame" in one or "bytes" in one or "Table" in one]


def test_help_by_a_real_process() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pipelines", "gate", "--help"], capture_output=True, text=True, check=True
    )
    assert "--policy" in done.stdout


def test_importing_the_steps_is_light() -> None:
    """Airflow's operators import contract, errors and params: none of the heavy libraries comes along."""
    heavy = (
        "pandas numpy mlflow great_expectations dvc sagemaker pyiceberg pyarrow duckdb ibis xgboost sklearn matplotlib"
    )
    code = (
        "import sys, pipelines.params; from pipelines.steps import STEPS, load_spec_class, load_result_class\n"
        "[(load_spec_class(s), load_result_class(s)) for s in STEPS]\n"
        f"print([n for n in {heavy.split()} if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def schema_complaints(value: Any, schema: dict[str, Any]) -> list[str]:
    import jsonschema

    return [error.message for error in jsonschema.Draft202012Validator(schema).iter_errors(value)]


def test_results_of_a_real_run_validate_against_their_schemas(trained: Any) -> None:
    for step, result in {
        "snapshot": trained.snapshot,
        "preprocess": trained.features,
        "train": trained.training,
        "evaluate": trained.evaluation,
    }.items():
        schema = load_result_class(step).model_json_schema(mode="serialization")
        told = json.loads(result.model_dump_json())
        assert schema_complaints(told, schema) == []
        assert load_result_class(step).model_validate(told) == result
        assert len(result.model_dump_json()) < 4_000


def test_a_wrong_result_does_not_validate(trained: Any) -> None:
    schema = load_result_class("train").model_json_schema(mode="serialization")
    assert schema_complaints({**json.loads(trained.training.model_dump_json()), "digest": 3}, schema)
