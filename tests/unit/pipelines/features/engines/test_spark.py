"""Test that the check of Java and of column types gives an error of one line."""

from pathlib import Path

import pyarrow as pa
import pytest

from pipelines.errors import DataError, SpecError
from pipelines.features.engines import spark
from pipelines.features.engines.spark import check_java


def write_java(folder: Path, body: str) -> None:
    (folder / "bin").mkdir()
    (folder / "bin" / "java").write_text(f"#!/bin/sh\n{body}\n")
    (folder / "bin" / "java").chmod(0o755)


@pytest.mark.parametrize("version", ["17.0.15", "21", "23-ea"])
def test_accepts_java_17_or_newer(version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_java(tmp_path, f"echo 'openjdk version \"{version}\"' >&2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    check_java()


@pytest.mark.parametrize(
    "body", ["echo 'java version \"1.8.0_392\"' >&2", "echo 'openjdk version \"11.0.2\"' >&2", "exit 1"]
)
def test_refuses_an_older_or_broken_java(body: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_java(tmp_path, body)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(SpecError, match="needs Java 17 or newer") as error:
        check_java()
    assert "openjdk-17" in error.value.hint


def test_a_missing_java_is_an_error_that_names_the_searched_places(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(SpecError, match=f"JAVA_HOME is {tmp_path}, which has no bin/java"):
        check_java()
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SpecError, match="java is not on the PATH"):
        check_java()


def test_refuses_a_type_that_spark_does_not_have(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"Spark has no type for .*Time.*duckdb"):
        spark._create_view(None, [], pa.schema([("at", pa.time64("us"))]), tmp_path)
