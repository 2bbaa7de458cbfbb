"""Test the FailureReason of a failed job."""

from collections.abc import Callable
from pathlib import Path

import pytest

from drydock.errors import FAILURE_REASON_MAX_CHARS
from drydock.host.tree import HostTree
from drydock.jobs.failure import describe_algorithm_error, list_last_lines


@pytest.fixture
def make_trees(tmp_path: Path) -> Callable[[int], list[HostTree]]:
    """Return the function that makes the trees of some hosts."""

    def make(count: int) -> list[HostTree]:
        trees = [HostTree(tmp_path / f"algo-{number}") for number in range(1, count + 1)]
        for tree in trees:
            tree.output.mkdir(parents=True)
        return trees

    return make


@pytest.mark.parametrize("message", ["", "why" * 1000])
def test_algorithm_error_is_short_and_keeps_the_message(
    make_trees: Callable[[int], list[HostTree]], message: str
) -> None:
    (tree,) = make_trees(1)
    (tree.output / "failure").write_text(message)
    log_end, command = "x" * 900 + "\n" + "y" * 900 + " the end", ["python", "-c", "z" * 900]
    reason = describe_algorithm_error(3, [tree], "algo-1", log_end, command)
    assert len(reason) <= FAILURE_REASON_MAX_CHARS
    assert "ExitCode 3" in reason and reason.endswith("exit code: 3")
    assert ("why" in reason) if message else ("the end" in reason)
    assert "Host" not in reason


def test_of_several_hosts_the_one_that_failed_is_named(make_trees: Callable[[int], list[HostTree]]) -> None:
    trees = make_trees(2)
    (trees[0].output / "failure").write_text("the other host ended")
    assert '\nHost algo-2\nErrorMessage "its log' in describe_algorithm_error(137, trees, "algo-2", "its log", ["x"])
    (trees[1].output / "failure").write_text("my own failure")
    assert '\nHost algo-2\nErrorMessage "my own' in describe_algorithm_error(3, trees, "algo-2", "its log", ["x"])


def test_last_lines_of_a_log_have_neither_empty_ones_nor_markers_of_a_column() -> None:
    traceback = """
Traceback (most recent call last):
  File "inference.py", line 3, in model_fn
    raise RuntimeError(name)
    ^^^^^^^^^^^^^^^^^^^^^^^^

RuntimeError: no such feature
"""
    assert list_last_lines(traceback, 3) == [
        'File "inference.py", line 3, in model_fn',
        "raise RuntimeError(name)",
        "RuntimeError: no such feature",
    ]
    assert list_last_lines("") == []
