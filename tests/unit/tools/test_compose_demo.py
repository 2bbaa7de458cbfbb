"""What the demo of the team's stack is told, and what it says where that stack is not there."""

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
    spec = importlib.util.spec_from_file_location("compose_demo", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_ports_and_password_are_those_of_the_env_file(tool: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / ".env"
    path.write_text("# AIRFLOW_PORT=1\n\nAIRFLOW_PORT=18080\nAIRFLOW_ADMIN_PASSWORD='a=b'\nMLFLOW_PORT=\n")
    told = tool.settings(path)
    assert (told["AIRFLOW_PORT"], told["AIRFLOW_ADMIN_PASSWORD"], told["MLFLOW_PORT"]) == ("18080", "a=b", "")


@pytest.mark.parametrize(("text", "words"), [(None, "make compose-up"), ("AIRFLOW_PORT=8080\n", "make compose-init")])
def test_a_stack_that_was_never_made_is_told(tool: ModuleType, tmp_path: Path, text: str | None, words: str) -> None:
    if text is not None:
        (tmp_path / ".env").write_text(text)
    with pytest.raises(RequestError, match=words):
        tool.settings(tmp_path / ".env")


def test_a_stack_that_does_not_answer_is_told(tool: ModuleType) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(UnavailableError, match="make compose-up"):
        tool.opened({"AIRFLOW_PORT": str(port), "AIRFLOW_ADMIN_PASSWORD": "x"})
