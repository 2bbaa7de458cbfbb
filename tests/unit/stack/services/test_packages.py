"""Test that the stack names the packages that its environment lacks before it starts anything."""

from pathlib import Path

import pytest

from stack.errors import RequestError
from stack.layout import Layout
from stack.services import start_stop
from stack.services.ports import PREFERRED_PORTS


def test_missing_packages_are_named_with_their_extra(tmp_path: Path, monkeypatch):
    (tmp_path / "dags").mkdir()
    monkeypatch.setattr(start_stop, "SERVICE_PACKAGES", ("airflow", "no_such_package"))
    layout = Layout(home=tmp_path / "home", project=tmp_path)
    with pytest.raises(RequestError, match=r"The services need no_such_package, which .*leeway.local.") as error:
        start_stop.start_stack(layout, PREFERRED_PORTS, lambda *_: None)
    assert "airflow" not in str(error.value)
    assert not layout.home.exists()
