"""Test the settings of the demo on the team's stack, and its messages when that stack does not run."""

from __future__ import annotations

import importlib.util
import socket
from pathlib import Path
from types import ModuleType

import pytest

from stack.errors import RequestError, UnavailableError

SCRIPT = Path(__file__).parents[3] / "tools" / "compose_demo.py"


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    """Import tools/compose_demo.py, and return the module."""
    spec = importlib.util.spec_from_file_location("compose_demo", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_settings_are_read_from_the_env_file(tool: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / ".env"
    path.write_text("# AIRFLOW_PORT=1\n\nAIRFLOW_PORT=18080\nAIRFLOW_ADMIN_PASSWORD='a=b'\nMLFLOW_PORT=\n")
    settings = tool.read_settings(path)
    assert (settings["AIRFLOW_PORT"], settings["AIRFLOW_ADMIN_PASSWORD"], settings["MLFLOW_PORT"]) == (
        "18080",
        "a=b",
        "",
    )


@pytest.mark.parametrize(("text", "command"), [(None, "make compose-up"), ("AIRFLOW_PORT=8080\n", "make compose-init")])
def test_error_names_the_command_if_settings_are_missing(
    tool: ModuleType, tmp_path: Path, text: str | None, command: str
) -> None:
    if text is not None:
        (tmp_path / ".env").write_text(text)
    with pytest.raises(RequestError, match=command):
        tool.read_settings(tmp_path / ".env")


def test_error_names_the_command_if_the_stack_does_not_answer(tool: ModuleType) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(UnavailableError, match="make compose-up"):
        tool.open_session({"AIRFLOW_PORT": str(port), "AIRFLOW_ADMIN_PASSWORD": "x"})
