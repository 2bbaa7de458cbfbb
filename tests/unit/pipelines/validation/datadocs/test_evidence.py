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


def test_the_description_of_the_engines_has_only_what_the_evidence_has(tmp_path: Path) -> None:
    path = tmp_path / "2013-01-01.json"
    meta = {"validation_time": "2013-01-02", "verification": {"compared": 3, "great_expectations": "1.5"}}
    path.write_text(json.dumps({"success": True, "results": [], "meta": meta}))
    text = "3 expectations by both (Great Expectations 1.5), all of them with the same answers"
    assert read_run(path).judged_by == f"Judged {text}"
    path.write_text(json.dumps({"success": True, "results": [], "meta": {**meta, "engines": {"duckdb": 2}}}))
    assert read_run(path).judged_by == f"Judged by DuckDB (2); {text}"
