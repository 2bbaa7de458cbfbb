"""Test the folders of a stack, and the disks and projects that are refused."""

from pathlib import Path

import pytest

from stack import layout as layout_module
from stack.errors import RequestError, UnavailableError
from stack.layout import Layout


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    (tmp_path / "dags").mkdir()
    return Layout(home=tmp_path / "home", project=tmp_path)


def test_layout_follows_the_environment(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("LEEWAY_PROJECT", str(tmp_path))
    monkeypatch.setenv("LEEWAY_HOME", str(tmp_path / "other"))
    assert Layout.from_environment().home == tmp_path / "other"


def test_an_installed_leeway_runs_the_project_in_the_working_directory(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert Layout.from_environment().project == layout_module.CODE_FOLDER, "a checkout runs its own project"
    monkeypatch.setattr(layout_module, "IS_CHECKOUT", False)
    assert Layout.from_environment() == Layout(home=tmp_path / ".leeway", project=tmp_path)


def test_an_installed_leeway_has_no_example(layout: Layout, monkeypatch):
    layout.require_example()
    monkeypatch.setattr(layout_module, "IS_CHECKOUT", False)
    with pytest.raises(RequestError, match="only Leeway's example has a demo"):
        layout.require_example()
    (layout.project / "dags/flights.py").touch()
    layout.require_example()


def test_refuses_a_project_without_dags(tmp_path):
    with pytest.raises(RequestError, match="has no folder dags/"):
        Layout(home=tmp_path / "home", project=tmp_path).create_folders()
    assert not (tmp_path / "home").exists()


def test_refuses_a_full_disk(layout, monkeypatch):
    monkeypatch.setattr("stack.layout.MIN_FREE_BYTES", 1 << 60)
    with pytest.raises(UnavailableError, match="MiB are free"):
        layout.create_folders()


def test_refuses_a_home_that_cannot_be_written(layout, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UnavailableError, match="Cannot write"):
        Layout(home=tmp_path / "file" / "home", project=tmp_path).create_folders()


def test_home_is_the_owners_alone_also_where_it_exists(layout):
    """`make setup` or an older version may have created it for everybody."""
    layout.home.mkdir()
    layout.home.chmod(0o755)
    layout.create_folders()
    assert layout.home.stat().st_mode & 0o777 == 0o700


def test_a_project_with_models_refuses_another_one(layout: Layout):
    layout.require_model("any")
    for name in ("late", "delay"):
        (layout.project / "models" / name).mkdir(parents=True)
        (layout.project / "models" / name / "params.yaml").touch()
    layout.require_model("late")
    with pytest.raises(RequestError, match=r"there is no model 'any'\. The models are delay, late"):
        layout.require_model("any")
