"""Test that settings are checked when they are read, and that the error names the environment variable."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pipelines.errors import SpecError
from pipelines.settings import Settings, create_home, settings


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        *(("LEEWAY_WORKSPACE_DAYS", value) for value in ("abc", "0", "-1", "1.5", "true", "99999999999999", "nan")),
        *(("LEEWAY_MEMORY_MIB", value) for value in ("0", "15", "1.5", "768MiB", "99999999999")),
        *(("MLFLOW_TRACKING_URI", value) for value in ("notaurl", "ftp://host", "http://host:8080extra")),
        *(("AWS_ENDPOINT_URL", value) for value in ("notaurl", "ftp://host", "sqlite:///x")),
        ("AWS_ENDPOINT_URL_S3", "http://host:x"),
        ("LEEWAY_DOCS_URL", "ftp://host"),
        *(("LEEWAY_STATUS_COPY", value) for value in ("bucket/key", "s3://bucket", "s3://bucket/")),
    ],
)
def test_a_wrong_value_is_an_error_that_names_the_variable(
    variable: str, value: str, monkeypatch: pytest.MonkeyPatch, fresh_settings: Callable[[], None]
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(SpecError) as error:
        settings()
    assert error.value.exit_code == 2
    assert str(error.value).startswith(f"{variable}: ")
    assert f"(got {value!r})" in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("password", ["s3cret", "s3cret/x", "s3cret@x", "s3cret:x", "s3cret\nx"])
def test_a_password_is_not_shown(
    password: str, monkeypatch: pytest.MonkeyPatch, fresh_settings: Callable[[], None]
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"postgresql://user:{password}@host:80x/mlflow")
    with pytest.raises(SpecError, match=r"^MLFLOW_TRACKING_URI: the port.*//\*\*\*@") as error:
        settings()
    assert "s3cret" not in str(error.value)


def test_all_wrong_values_are_named(monkeypatch: pytest.MonkeyPatch, fresh_settings: Callable[[], None]) -> None:
    monkeypatch.setenv("LEEWAY_WORKSPACE_DAYS", "abc")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "abc")
    with pytest.raises(SpecError, match=r"LEEWAY_WORKSPACE_DAYS.*AWS_ENDPOINT_URL"):
        settings()


def test_valid_values_are_accepted(monkeypatch: pytest.MonkeyPatch, fresh_settings: Callable[[], None]) -> None:
    """This is the negative control."""
    values = {
        "LEEWAY_WORKSPACE_DAYS": "7", "MLFLOW_TRACKING_URI": "http://127.0.0.1:5000",
        "AWS_ENDPOINT_URL": "http://localhost:5005", "LEEWAY_DOCS_URL": "file:///docs", "LEEWAY_HOME": "/somewhere",
    }  # fmt: skip
    for variable, value in values.items():
        monkeypatch.setenv(variable, value)
    assert (settings().workspace_days, settings().home) == (7, Path("/somewhere"))


def test_an_empty_variable_counts_as_not_set(
    monkeypatch: pytest.MonkeyPatch, fresh_settings: Callable[[], None], tmp_path: Path
) -> None:
    """`.env.example` lists the variables with empty values."""
    monkeypatch.chdir(tmp_path)
    for variable in ("LEEWAY_HOME", "LEEWAY_PROJECT", "LEEWAY_WORKSPACE_DAYS", "MLFLOW_TRACKING_URI"):
        monkeypatch.setenv(variable, "")
    assert (settings().home, settings().project) == (tmp_path / ".leeway", tmp_path)
    assert (settings().workspace_days, settings().mlflow_tracking_uri) == (30, "")


def test_home_is_created_for_its_owner_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fresh_settings: Callable[[], None]
) -> None:
    home, umask = tmp_path / "a" / "home", os.umask(0)
    try:
        monkeypatch.setenv("LEEWAY_HOME", str(home))
        fresh_settings()
        create_home()
        assert home.stat().st_mode & 0o777 == 0o700
        home.chmod(0o750)
        create_home()
        assert home.stat().st_mode & 0o777 == 0o750, "its owner may share it"
    finally:
        os.umask(umask)


def test_an_experiment_in_a_folder_of_its_own_has_the_home_of_its_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LEEWAY_HOME", raising=False)
    for folder in ("", "data", ".dvc/tmp/exps/tmpa1", ".dvc/tmp/exps/standalone/tmpb2"):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        monkeypatch.chdir(tmp_path / folder)
        expected = tmp_path if "exps" in folder else tmp_path / folder
        assert Settings().home == expected / ".leeway"
        assert Settings(home=Path("/elsewhere")).home == Path("/elsewhere")
