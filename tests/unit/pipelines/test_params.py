"""Test how params.yaml is read, and the errors for a wrong file."""

import os
from pathlib import Path

import pytest

from pipelines import params
from pipelines.errors import LeewayError, SpecError

ROOT = Path(__file__).parents[3]

INVALID = {
    "unknown section": ("snapshots: {}\n", "unknown section 'snapshots'"),
    "unknown key": ("snapshot: {as_off: 2013-01-01}\n", "unknown key as_off"),
    "unknown nested key": ("gate: {policy: {min_rowz: 5}}\n", "unknown key policy.min_rowz"),
    "wrong type": ("snapshot: {train_days: many}\n", "train_days"),
    "out of range": ("snapshot: {train_days: 0}\n", "train_days"),
    "not YAML": ("snapshot:\n  - a\n b: [\n", r"params.yaml line \d+, column \d+"),
    "tab": ("snapshot:\n\ttrain_days: 3\n", "line 2"),
    "a list": ("- snapshot\n", "mapping"),
    "a word": ("snapshot\n", "mapping"),
    "section is a list": ("snapshot: [1, 2]\n", "must be a mapping"),
    "section is empty": ("snapshot:\n", "must be a mapping"),
    "section's name is a number": ("1: {a: 2}\n", "unknown section"),
    "key is a number": ("snapshot: {1: 2}\n", "snapshot"),
    "no such day": ("snapshot:\n  as_of: 2013-02-30\n", "params.yaml"),
    "object": ("snapshot: !!python/object/apply:os.system ['true']\n", "params.yaml"),
    "control characters": ("snapshot: {\x00}\n", "params.yaml"),
    "cannot be a key": ("{[1]: 2}: 3\n", "params.yaml"),
}


@pytest.mark.parametrize("case", INVALID)
def test_invalid_parameters_are_an_error_of_one_line_with_the_place(tmp_path: Path, case: str) -> None:
    text, message = INVALID[case]
    (tmp_path / "params.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(SpecError, match=message) as error:
        params.load(tmp_path)
    assert "\n" not in str(error.value)
    assert error.value.exit_code == 2


def test_refuses_a_file_that_is_not_text(tmp_path: Path) -> None:
    (tmp_path / "params.yaml").write_bytes(b"snapshot: {as_of: \xff\xfe}\n")
    with pytest.raises(SpecError, match=r"params\.yaml: not UTF-8"):
        params.load(tmp_path)


def test_refuses_a_folder_named_params_yaml(tmp_path: Path) -> None:
    from pipelines.system.error_translation import translate_error

    (tmp_path / "params.yaml").mkdir()
    with pytest.raises((LeewayError, OSError)) as error:
        params.load(tmp_path)
    assert translate_error(error.value).exit_code == 2


def test_refuses_a_pipe_that_would_be_read_for_ever(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "params.yaml")
    with pytest.raises(SpecError, match=r"params\.yaml is not a file"):
        params.load(tmp_path)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("showback:\n  teams: {flights: red}\n  teams: {flights: blue}\n", 3),
        ("showback:\n  teams:\n    flights: red\n    flights: blue\n", 4),
        ("showback: {budgets_usd: {flights: 50, 'flights': 500}}\n", 1),
        ("gate: {}\nsnapshot: {}\ngate: {}\n", 3),
    ],
)
def test_refuses_a_key_that_is_there_twice(tmp_path: Path, text: str, line: int) -> None:
    (tmp_path / "params.yaml").write_text(text)
    with pytest.raises(SpecError, match=rf"params\.yaml line {line}, column \d+: the key '\w+' occurs twice"):
        params.load(tmp_path)


def test_a_merged_mapping_may_be_overridden(tmp_path: Path) -> None:
    text = "showback:\n  teams: &a {p: red, q: red}\n  environments: &b {<<: *a, p: test}\n  budgets_usd: {x: 1}\n"
    (tmp_path / "params.yaml").write_text(text + "key_figures: {}\n")
    assert params.load_section(tmp_path, "showback")["environments"] == {"p": "test", "q": "red"}
    twice = "showback:\n  teams: &a {p: red}\n  environments: &b {<<: *a, p: test}\n  budgets_usd: {<<: *b, p: 1}\n"
    (tmp_path / "params.yaml").write_text(twice)
    assert params.load_section(tmp_path, "showback")["budgets_usd"] == {"p": 1}


def test_an_error_names_all_problems_of_a_section(tmp_path: Path) -> None:
    (tmp_path / "params.yaml").write_text("snapshot: {train_days: x, holdout_days: y, oops: 1}\n")
    with pytest.raises(SpecError) as error:
        params.load(tmp_path)
    assert all(word in str(error.value) for word in ("train_days", "holdout_days", "unknown key oops"))


def test_a_typo_in_the_last_section_is_an_error_in_the_first_step(tmp_path: Path) -> None:
    (tmp_path / "params.yaml").write_text("gate: {oops: 1}\n")
    with pytest.raises(SpecError, match="oops"):
        params.load_section(tmp_path, "snapshot")


def test_the_parameters_of_this_project_are_valid() -> None:
    assert params.load_section(ROOT, "snapshot", "flights")["dataset"] == "flights"
    assert params.load_section(ROOT, "ingest") == {}


@pytest.mark.parametrize("text", [None, "", "# only a comment\n"])
def test_missing_or_empty_parameters_are_no_error(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "params.yaml").write_text(text)
    assert params.load(tmp_path) == {}


def test_values_that_the_command_line_gives_may_be_missing(tmp_path: Path) -> None:
    (tmp_path / "params.yaml").write_text("snapshot: {train_days: 5}\n")
    assert params.load_section(tmp_path, "snapshot") == {"train_days": 5}


def write_models(folder: Path, **files: str) -> Path:
    """Write params.yaml, and a file of parameters for each model; return the folder."""
    (folder / "params.yaml").write_text("drift: {window_days: 14, label_delay_days: 2}\nbudget: {project: all}\n")
    for name, text in files.items():
        (folder / "models" / name).mkdir(parents=True)
        (folder / "models" / name / "params.yaml").write_text(text)
    return folder


def test_the_file_of_a_model_replaces_single_keys(tmp_path: Path) -> None:
    folder = write_models(tmp_path, late="snapshot: {train_days: 30}\ndrift: {window_days: 7}\n", delay="")
    assert params.load_section(folder, "snapshot", "late") == {"train_days": 30}
    assert params.load_section(folder, "drift", "late") == {"window_days": 7, "label_delay_days": 2}
    assert params.load_value(folder, "drift", "window_days", "late") == 7
    assert params.load_section(folder, "budget", "late") == {"project": "all"}
    assert params.load(folder, "delay") == params.load(folder), "another model's file does not count"


def test_without_files_of_models_params_yaml_counts_for_every_model(tmp_path: Path) -> None:
    (tmp_path / "params.yaml").write_text("snapshot: {train_days: 60}\n")
    assert params.load(tmp_path, "any") == {"snapshot": {"train_days": 60}}


@pytest.mark.parametrize("name", ["lat", "../params", "/etc/passwd", "late.yaml", "late/"])
def test_refuses_a_model_without_a_file_and_lists_the_models(tmp_path: Path, name: str) -> None:
    folder = write_models(tmp_path, late="", delay="")
    with pytest.raises(SpecError, match=r"there is no model .*The models are delay, late"):
        params.load(folder, name)


def test_an_error_in_the_file_of_a_model_names_this_file(tmp_path: Path) -> None:
    folder = write_models(tmp_path, late="snapshot: {trian_days: 3}\n")
    with pytest.raises(SpecError, match=r"models/late/params\.yaml, section 'snapshot': unknown key trian_days"):
        params.load(folder, "late")
    assert params.load(folder)


def test_refuses_a_section_of_a_stage_beside_models(tmp_path: Path) -> None:
    """DVC would not see that the stage depends on it."""
    folder = write_models(tmp_path, late="", delay="")
    with (folder / "params.yaml").open("a") as file:
        file.write("train: {hyperparameters: {seed: 1}}\n")
    with pytest.raises(SpecError, match=r"section 'train' belongs to a model.*models/delay/params.yaml, models/late/"):
        params.load(folder)


def test_the_folder_of_a_model_has_its_parameters_and_data(tmp_path: Path) -> None:
    assert params.find_model_folder(tmp_path, "any") == tmp_path, "a project without models"
    folder = write_models(tmp_path, late="", delay="")
    assert params.find_model_folder(folder, "late") == folder / "models/late"
    with pytest.raises(SpecError, match=r"no model is named.*delay, late"):
        params.find_model_folder(folder, "")
