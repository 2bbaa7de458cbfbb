"""Test that each step keeps the contract: Spec, Result, run, and a command with --help, --schema and a JSON result."""

import json
import subprocess
import sys
from typing import Any

import pytest
from pydantic import BaseModel

from pipelines.cli import app
from pipelines.contract import RESERVED_OPTIONS, Result, Spec
from pipelines.steps import STEPS, load_result_class, load_run_function, load_spec_class, read_summary


def run_command(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """Run `python -m pipelines ARGUMENTS` in this process; return its exit code."""
    monkeypatch.setattr(sys, "argv", ["pipelines", *arguments])
    try:
        app.main()
    except SystemExit as error:
        return int(error.code or 0)
    return 0


def test_each_module_of_steps_is_a_step() -> None:
    from pathlib import Path

    import pipelines.steps

    folder = Path(pipelines.steps.__file__).parent
    assert {path.stem for path in folder.glob("*.py")} - {"__init__"} == set(STEPS)


@pytest.mark.parametrize("step", STEPS)
def test_a_step_has_spec_result_and_run(step: str) -> None:
    spec, result = load_spec_class(step), load_result_class(step)
    assert issubclass(spec, Spec)
    assert issubclass(result, Result)
    assert callable(load_run_function(step))
    assert read_summary(step)[-1] in ".," or read_summary(step)
    assert {"schema_version"} <= set(result.model_fields)
    undocumented_fields = [
        name for name, field in {**spec.model_fields, **result.model_fields}.items() if not field.description
    ]
    assert undocumented_fields == []


@pytest.mark.parametrize("step", STEPS)
def test_a_spec_refuses_an_unknown_key(step: str) -> None:
    from pipelines.errors import SpecError

    with pytest.raises(SpecError, match="unknown key nonsense"):
        load_spec_class(step).parse({"nonsense": 1}, step)


@pytest.mark.parametrize("step", STEPS)
def test_help_names_each_field(step: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert run_command(monkeypatch, step, "--help") == 0
    output = capsys.readouterr().out
    for name in (*load_spec_class(step).model_fields, "out", "spec", "schema"):
        assert f"--{name.replace('_', '-')}" in output


@pytest.mark.parametrize("step", STEPS)
def test_schema_prints_json_of_spec_and_result(
    step: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(monkeypatch, step, "--schema") == 0
    schemas = json.loads(capsys.readouterr().out)
    assert set(schemas) == {"spec", "result"}
    assert schemas["spec"]["additionalProperties"] is False
    assert set(schemas["spec"].get("properties", {})) == set(load_spec_class(step).model_fields)


@pytest.mark.filterwarnings("ignore:Field name:UserWarning")
def test_a_field_cannot_have_the_name_of_a_common_option() -> None:
    assert {"spec", "out", "schema", "help"} <= RESERVED_OPTIONS
    for name in sorted(RESERVED_OPTIONS):
        with pytest.raises(TypeError, match=name):
            type("ReservedSpec", (Spec,), {"__annotations__": {name: str}, name: ""})
    type("ValidSpec", (Spec,), {"__annotations__": {"name": str}, "name": ""})


@pytest.mark.parametrize("step", STEPS)
def test_no_result_contains_data(step: str) -> None:
    """A result has only references and numbers: no field is a table, bytes or a data frame."""

    def list_types(model: type[BaseModel]) -> list[str]:
        return [str(field.annotation) for field in model.model_fields.values()]

    assert not [
        text
        for text in list_types(load_result_class(step))
        if "DataFrame" in text or "bytes" in text or "Table" in text
    ]


def test_help_works_in_a_real_process() -> None:
    process = subprocess.run(
        [sys.executable, "-m", "pipelines", "gate", "--help"], capture_output=True, text=True, check=True
    )
    assert "--policy" in process.stdout


def test_the_import_of_specs_and_results_loads_no_heavy_library() -> None:
    """Airflow's operators import the contract, errors and params, and must not load heavy libraries."""
    heavy = (
        "pandas numpy mlflow great_expectations dvc sagemaker pyiceberg pyarrow duckdb ibis xgboost sklearn matplotlib"
    )
    code = (
        "import sys, pipelines.params; from pipelines.steps import STEPS, load_spec_class, load_result_class\n"
        "[(load_spec_class(s), load_result_class(s)) for s in STEPS]\n"
        f"print([n for n in {heavy.split()} if n in sys.modules])"
    )
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert process.stdout.strip() == "[]"


def list_schema_errors(value: Any, schema: dict[str, Any]) -> list[str]:
    import jsonschema

    return [error.message for error in jsonschema.Draft202012Validator(schema).iter_errors(value)]


def test_results_of_a_real_run_match_their_schemas(trained: Any) -> None:
    for step, result in {
        "snapshot": trained.snapshot,
        "preprocess": trained.features,
        "train": trained.training,
        "evaluate": trained.evaluation,
    }.items():
        schema = load_result_class(step).model_json_schema(mode="serialization")
        content = json.loads(result.model_dump_json())
        assert list_schema_errors(content, schema) == []
        assert load_result_class(step).model_validate(content) == result
        assert len(result.model_dump_json()) < 4_000


def test_a_wrong_result_does_not_match_its_schema(trained: Any) -> None:
    """This is the negative control."""
    schema = load_result_class("train").model_json_schema(mode="serialization")
    assert list_schema_errors({**json.loads(trained.training.model_dump_json()), "digest": 3}, schema)
