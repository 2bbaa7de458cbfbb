"""Test what the start of a stack says of ports and of drydock while services end."""

import socket
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from stack.errors import UnavailableError
from stack.layout import Layout
from stack.services import readiness
from stack.services.record import Ports, Stack


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(home=tmp_path, project=tmp_path)


@pytest.fixture
def stack(layout: Layout, free_port: Callable[[], int]) -> Stack:
    ports = Ports(airflow=free_port(), mlflow=free_port(), drydock=free_port(), docs=free_port())
    return Stack(id="one", project=layout.project, started_at=datetime.now(UTC), ports=ports)


@pytest.mark.parametrize("ends", [True, False])
def test_service_that_ends_during_the_check_is_not_taken_for_another_program(
    layout: Layout, stack: Stack, monkeypatch: pytest.MonkeyPatch, ends: bool
) -> None:
    """A program that stays is the control."""
    with socket.create_server(("127.0.0.1", stack.ports.mlflow)) as server:

        def find_owners(*_: object) -> list[int]:
            if ends:
                server.close()
            return [stack.ports.mlflow]

        monkeypatch.setattr(readiness, "find_unserved_ports", find_owners)
        if ends:
            readiness.raise_if_port_is_taken(layout, stack)
        else:
            with pytest.raises(UnavailableError, match=f"Another program took port {stack.ports.mlflow} while"):
                readiness.raise_if_port_is_taken(layout, stack)


def test_drydock_that_has_just_ended_is_reported(stack: Stack) -> None:
    with pytest.raises(UnavailableError, match=r"drydock did not create the bucket leeway \(ConnectionError\)"):
        readiness.create_bucket(stack)
