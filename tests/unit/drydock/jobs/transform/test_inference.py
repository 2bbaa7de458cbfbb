"""Test the program that runs a model for a transform job, as a process in a folder outside /opt/ml."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from drydock.host.programs import copy_program
from drydock.jobs.transform import inference

CODE = """
def model_fn(model_dir, context): return len(model_dir) * 0 + 2
def transform_fn(model, body, content_type, accept):
    assert isinstance(body, str if content_type == "text/csv" else bytes)
    return str(len(body) * model).encode(), accept
"""
OPTIONS: dict[str, Any] = {"content_type": "text/csv", "accept": "text/csv", "splits_by_line": True}
OPTIONS |= {"has_single_records": True, "is_gzip": False, "joins_with_newline": True, "max_bytes": 4}


def run(base: Path, content: bytes, code: str = CODE, **options: Any) -> "subprocess.CompletedProcess[str]":
    for folder in ("code", "model/code", "input/data/transform/sub", "output/data"):
        (base / folder).mkdir(parents=True)
    (base / "code" / inference.OPTIONS_FILE).write_text(json.dumps({**OPTIONS, **options}))
    (base / "model/code/inference.py").write_text(code)
    (base / "input/data/transform/sub/a").write_bytes(content)
    copy_program(inference, base / "code", inference.PROGRAM_FILE)
    env = {"PATH": os.environ["PATH"], "SAGEMAKER_BASE_DIR": str(base), "SAGEMAKER_PROGRAM": "inference.py"}
    return subprocess.run(
        [sys.executable, str(base / "code" / inference.PROGRAM_FILE)], env=env, capture_output=True, text=True
    )


def read_output(base: Path) -> bytes:
    return (base / "output/data/sub/a.out").read_bytes()


@pytest.mark.parametrize(
    ("content", "options", "output"),
    [
        (b"1\n22\n", {}, b"2\n4\n"),
        (b"1\n22", {"joins_with_newline": False}, b"24"),
        (b"1\n22\n1\n", {"has_single_records": False}, b"8\n2\n"),
        (b"1\n\n1\n", {"has_single_records": False, "max_bytes": 0, "content_type": "text/plain"}, b"8\n"),
        (b"1\n2\n", {"splits_by_line": False}, b"8\n"),
        (b"", {}, b""),
    ],
)
def test_responses_have_the_order_of_the_records(
    content: bytes, options: dict[str, Any], output: bytes, tmp_path: Path
) -> None:
    result = run(tmp_path, content, **options)
    assert (result.returncode, result.stderr) == (0, "")
    assert read_output(tmp_path) == output and result.stdout == "transformed sub/a\n"


def test_too_large_record_is_not_a_failure_of_the_model(tmp_path: Path) -> None:
    result = run(tmp_path / "long", b"1\n55555\n")
    assert result.returncode == inference.EXIT_BAD_INPUT
    assert (tmp_path / "long/output/failure").read_text().startswith("a record of 5 bytes is more than MaxPayloadInMB")
    result = run(tmp_path / "text", b"\xff\n")
    assert result.returncode == 1 and "Traceback" in result.stderr
    assert (tmp_path / "text/output/failure").read_text().startswith("UndecodableBody: the body is not text/csv")


EXITS = """
import sys
def model_fn(model_dir): return []
def transform_fn(bodies, body, content_type, accept):
    bodies.append(body)
    if len(bodies) == 2: {how}
    return body
"""


@pytest.mark.parametrize(
    ("how", "code", "failure"),
    [("sys.exit(0)", 1, "SystemExit: 0"), ("sys.exit()", 1, "SystemExit: "), ("import os; os._exit(0)", 0, None)],
)
def test_model_that_exits_leaves_no_partial_output(how: str, code: int, failure: str | None, tmp_path: Path) -> None:
    result = run(tmp_path, b"1\n22\n", EXITS.format(how=how))
    assert result.returncode == code
    assert list((tmp_path / "output/data").rglob("*.out")) == []
    path = tmp_path / "output/failure"
    assert (path.read_text() if path.exists() else None) == failure
