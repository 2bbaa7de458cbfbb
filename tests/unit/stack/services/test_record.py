"""Test the record of a running stack."""

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from stack.layout import Layout
from stack.services.record import Ports, Process, Stack


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(home=tmp_path, project=tmp_path)


def build_stack(layout: Layout, supervisor: Process | None = None) -> Stack:
    ports = Ports(airflow=1, mlflow=2, drydock=3, docs=4)
    return Stack(id="one", project=layout.project, started_at=datetime.now(UTC), ports=ports, supervisor=supervisor)


def test_loads_the_record_that_was_saved(layout):
    stack = build_stack(layout, Process.from_pid(os.getpid()))
    stack.save(layout)
    assert Stack.load(layout) == stack
    assert stack.is_alive()


@pytest.mark.parametrize("content", [None, b"", b'{"id": "one"', b"[]", b"\xff\xfe\x00" * 40])
def test_record_that_cannot_be_read_counts_as_none(layout, content):
    if content is not None:
        layout.record_file.write_bytes(content)
    assert Stack.load(layout) is None


@pytest.mark.parametrize("pid", [-1, 0, 10**30])
def test_record_with_an_impossible_pid_counts_as_none(layout, pid):
    """Signals to these pids would reach a group of processes."""
    stack = build_stack(layout, Process.from_pid(os.getpid()))
    stack.save(layout)
    text = layout.record_file.read_text()
    layout.record_file.write_text(text.replace(f'"pid": {os.getpid()}', f'"pid": {pid}'))
    assert Stack.load(layout) is None


def test_later_process_with_the_same_pid_is_not_alive(layout):
    process = Process.from_pid(os.getpid())
    assert not build_stack(layout, process.model_copy(update={"created": process.created - 1})).is_alive()
