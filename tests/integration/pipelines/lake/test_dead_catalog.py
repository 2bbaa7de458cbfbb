"""Test steps whose configured catalog or storage is dead or wrong: one line that names it, and the right exit code."""

from pathlib import Path
from typing import Any

import pytest

PREFIX = "PYICEBERG_CATALOG__LEEWAY__"
SQLITE = {"URI": "sqlite:///{folder}/catalog.db", "WAREHOUSE": "file://{folder}/lake"}
DEAD_S3 = {"WAREHOUSE": "s3://leeway/lake", "S3__ENDPOINT": "http://127.0.0.1:1"}
POSTGRES = "postgresql+psycopg://lake:s3cret@127.0.0.1:1/lake"
CASES: dict[str, tuple[dict[str, str], int, str]] = {
    "a dead database": (SQLITE | {"URI": POSTGRES}, 75, "the lake's catalog does not answer: "),
    "a malformed address": (SQLITE | {"URI": POSTGRES.replace(":1/", ":1x/")}, 2, f"{PREFIX}URI is not the address"),
    "a file that is no database": (
        SQLITE | {"URI": "sqlite:///{folder}/garbage"},
        2,
        "the lake's catalog cannot be read",
    ),
    "a dead S3": (SQLITE | DEAD_S3, 75, "S3 does not answer: "),
    "none of these": (SQLITE, 0, ""),
}


@pytest.mark.parametrize(
    "case",
    [
        *("a dead database", "a malformed address", "a file that is no database"),
        *(pytest.param(case, marks=pytest.mark.soak) for case in ("a dead S3", "none of these")),
    ],
)
def test_an_error_of_the_catalog_is_one_line(case: str, commands: Any, tmp_path: Path) -> None:
    settings, code, text = CASES[case]
    (tmp_path / "garbage").write_text("no database " * 99)
    variables = {f"{PREFIX}{name}": value.format(folder=tmp_path) for name, value in settings.items()}
    variables |= {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x"}
    process = commands.run_step("ingest", "--dataset", "flights", "--partition", "2013-01-01", env=variables)
    lines = [line for line in process.err.splitlines() if line.startswith("error: ")]
    assert process.code == code, process.err
    assert len(lines) == bool(code) and all(line.startswith(f"error: {text}") for line in lines), lines
    assert not any(word in process.err for word in ("s3cret", "Traceback", "bug of Leeway")), process.err
