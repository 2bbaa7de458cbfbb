"""Test that evidence of another tool is read, and that content that is not as expected is left out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipelines.validation.datadocs.evidence import read_run


@pytest.mark.parametrize("results", [7, "none", {"success": True}, None])
def test_results_that_are_no_list_are_left_out(tmp_path: Path, results: object) -> None:
    path = tmp_path / "2013-01-01.json"
    path.write_text(json.dumps({"success": True, "results": results, "meta": {"validation_time": "2013-01-02"}}))
    assert list(read_run(path).checks) == []
