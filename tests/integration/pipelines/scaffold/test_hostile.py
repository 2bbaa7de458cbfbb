"""Test `python -m pipelines new` with names, files and addresses that could break or attack what it writes."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.errors import DataError, SpecError
from pipelines.scaffold.creation import Creation, create
from pipelines.scaffold.request import Request, refuse_to_ask

MARK = "LEEWAY_TEST_CODE_RAN"
"""Environment variable that an injected code would set."""
CODE = f'__import__("os").environ.__setitem__("{MARK}", "1")'
NAMES = (
    *(
        'k"m',
        "k'm",
        "both \" and '",
        "k m",
        " km",
        "km\\",
        "k\\m",
        "\\N{DASH}",
        "\\u12",
        "k\tm",
        "k\u2028m",
        "\u202ekm",
    ),
    *("{{ 7*7 }}", "{% raw %}", "{# c #}", "{km}", "${km}", "%(km)s", "km # x", "km: {a", "a.b", "a/b", "*", "km[<0]"),
    *("class", "None", "select", "self", "rows", "pa", "km, x", "kilom\u00e8tre \u8ddd\u79bb", "k" * 300),
    *(f'"); {CODE}; ("', f'""" + {CODE} + """', f"'); {CODE}; ('", 'km"; DROP TABLE orders; --'),
)
"""Names of columns. A name with a line break cannot be that of a CSV."""


def name_columns(orders: pd.DataFrame, kind: str) -> pd.DataFrame:
    """Return the orders with a column of each name: of numbers, or of free text that is not read."""
    rng = np.random.default_rng(5)
    words = np.array(["late", "early", "box", "paper", "torn", "wet", "cold", "door"])
    rows = len(orders)
    columns = {
        name: rng.normal(size=rows).round(3)
        if kind == "number"
        else [" ".join(rng.choice(words, 12)) for _ in range(rows)]
        for name in NAMES
    }
    return pd.concat([orders, pd.DataFrame(columns)], axis=1)


def check_style(project: Path) -> None:
    for command in ("check", "format --check --diff"):
        style = subprocess.run(
            [sys.executable, "-m", "ruff", *command.split(), "."], cwd=project, capture_output=True, text=True
        )
        assert style.returncode == 0, style.stdout


@pytest.mark.parametrize("kind", ["number", pytest.param("text", marks=pytest.mark.soak)])
def test_no_name_of_a_column_becomes_code(
    kind: str, make: Callable[..., Creation], project: Path, orders: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(MARK, raising=False)
    plan = make(name_columns(orders, kind)).plan
    assert set(NAMES) <= set(plan.features if kind == "number" else plan.dropped_columns)
    check_style(project)
    dataset = runpy.run_path(str(project / "datasets/orders/__init__.py"))["DATASET"]
    source = runpy.run_path(str(project / "datasets/orders/source.py"))
    assert MARK not in os.environ
    assert dict(dataset.features).keys() - {"weekday", "hour"} == plan.features.keys()
    rows = source["open_source"]().read(plan.days[0].as_py()).read_all()
    assert rows.num_rows == 60
    assert (set(NAMES) <= set(rows.column_names)) == (kind == "number")


@pytest.mark.parametrize("role", ["returned", "sold_at", "order_no", "overdue_min", "store"])
def test_no_name_or_value_of_a_column_with_a_purpose_becomes_code(
    role: str, make: Callable[..., Creation], project: Path, orders: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(MARK, raising=False)
    name = f'""" + {CODE} + """'
    values = {"yes": f"""a"); {CODE}; ("'""", "no": "{{ no }}\\"}
    table = orders.assign(returned=orders["returned"].map(values)).rename(columns={role: name})
    make(table, label=name if role == "returned" else "returned", positive=values["yes"])
    check_style(project)
    for path in project.rglob("*.py"):
        if "dags" not in path.parts:
            runpy.run_path(str(path))
    assert MARK not in os.environ


def test_a_column_without_a_name_is_not_read(
    make: Callable[..., Creation], project: Path, orders: pd.DataFrame
) -> None:
    plan = make(orders.assign(**{"": 3.5, "  ": orders["km"] * 2})).plan
    assert plan.dropped_columns[""] == plan.dropped_columns["  "] == "its name is empty"
    assert not {"", "  "} & set(plan.features)
    source = runpy.run_path(str(project / "datasets/orders/source.py"))
    assert source["open_source"]().read(plan.days[0].as_py()).read_all().num_rows == 60


HEADER = b"order_no,sold_at,store,km,returned\n"
FILES: dict[str, tuple[str, bytes, str]] = {
    "empty": ("rows.csv", b"", "is empty"),
    "mark of the encoding only": ("rows.csv", b"\xef\xbb\xbf\n", "is empty"),
    "header only": ("rows.csv", HEADER, "has 0 rows"),
    "one row": ("rows.csv", HEADER + b"1,2013-01-01,a,2,yes\n", "has 1 rows"),
    "binary": ("rows.csv", bytes(range(256)) * 300, "rows.csv"),
    "a null in the header": ("rows.csv", b"a\0b,c\n" + b"1,2\n" * 200, "a null character"),
    "a line break in a name": ("rows.csv", b'"a\nb",c\n' + b"1,2\n" * 200, "a line break"),
    "not packed": ("rows.csv.gz", HEADER * 100, "damaged or truncated"),
    "no Parquet": ("rows.parquet", HEADER * 100, "rows.parquet"),
    "UTF-16": ("rows.csv", (HEADER * 200).decode().encode("utf-16"), "UTF-16"),
    "no JSON": ("rows.jsonl", b"\xff\xfe" * 500, "rows.jsonl"),
}


@pytest.mark.parametrize("case", FILES)
def test_a_file_that_cannot_be_read_is_one_line(case: str, home: Path, project: Path, tmp_path: Path) -> None:
    name, content, problem = FILES[case]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=problem) as error:
        create(Request("orders", str(tmp_path / name), label="returned"), project, refuse_to_ask)
    assert "\n" not in str(error.value) and str(error.value).isprintable()
    assert list(project.iterdir()) == []


@pytest.mark.parametrize(("value", "problem"), [(np.inf, "54 infinite"), (np.nan, "is NaN in 54 rows"), (None, "")])
def test_a_label_that_is_infinite_or_nan_is_refused_and_null_is_missing(
    value: float | None, problem: str, home: Path, project: Path, tmp_path: Path, orders: pd.DataFrame
) -> None:
    label = [value if number % 50 == 0 else float(km) for number, km in enumerate(orders["km"])]
    columns = {"order_no": orders["order_no"], "sold_at": pd.to_datetime(orders["sold_at"]), "wait": orders["wait_min"]}
    table = pa.table({**{name: pa.array(values) for name, values in columns.items()}, "label": pa.array(label)})
    pq.write_table(table, tmp_path / "rows.parquet")
    request = Request("orders", str(tmp_path / "rows.parquet"), task="regression")
    if problem:
        with pytest.raises(DataError, match=problem):
            create(request, project, refuse_to_ask)
        assert list(project.iterdir()) == []
        return
    assert create(request, project, refuse_to_ask).plan.label.values.null_count == 54


def test_a_feature_with_infinite_values_is_not_read(make: Callable[..., Creation], orders: pd.DataFrame) -> None:
    plan = make(orders.assign(km=orders["km"].astype(float).mask(orders.index % 50 == 0, np.inf))).plan
    assert plan.dropped_columns["km"] == "it has infinite values"


@pytest.mark.parametrize("name", ["../x", "a/b", "class", "import", "null", "yes", "on", "", "A", "x" * 41, "ab\n"])
def test_a_name_that_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(SpecError, match=r"is not a name for a model|is a reserved word of Python or YAML"):
        Request(name, "rows.csv")


SECRET = "s3cr3t"


def check_no_secret(project: Path) -> None:
    texts = {path: path.read_bytes() for path in project.rglob("*") if path.is_file()}
    assert texts
    assert [path for path, content in texts.items() if SECRET.encode() in content] == []


@pytest.mark.parametrize("address", ["http://bob:{secret}@{host}/rows.csv", "http://{host}/rows.csv?api_key={secret}"])
def test_a_secret_in_an_address_is_in_no_file(
    address: str,
    serve: Callable[[Path], str],
    home: Path,
    project: Path,
    tmp_path: Path,
    orders: pd.DataFrame,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ORDERS_URL", "")
    (tmp_path / "api").mkdir()
    orders.to_csv(tmp_path / "api/rows.csv", index=False)
    url = address.format(secret=SECRET, host=serve(tmp_path / "api").removeprefix("http://"))
    creation = create(Request("orders", url, label="returned"), project, refuse_to_ask)
    assert creation.address_variable == "ORDERS_URL"
    check_no_secret(project)
    check_style(project)
    open_source = runpy.run_path(str(project / "datasets/orders/source.py"))["open_source"]
    assert open_source().read(creation.plan.days[0].as_py()).read_all().num_rows == 60
    monkeypatch.setenv("ORDERS_URL", "")
    with pytest.raises(SpecError, match="the environment variable ORDERS_URL is not set"):
        open_source()


@pytest.mark.parametrize(
    "url",
    ["postgresql+psycopg://bob:{}@127.0.0.1:9/shop", "postgresql+psycopg://127.0.0.1:9/shop?user=bob&password={}"],
)
def test_a_secret_is_in_no_message(url: str, home: Path, project: Path) -> None:
    with pytest.raises(Exception, match=r"127\.0\.0\.1") as error:
        create(Request("orders", url.format(SECRET), table="sales", label="returned"), project, refuse_to_ask)
    assert SECRET not in str(error.value)
    assert list(project.iterdir()) == []


@pytest.mark.parametrize(("script", "problem"), [("", "git is not installed"), ("exit 128", "git could not create a")])
def test_without_a_repository_nothing_is_written(
    script: str,
    problem: str,
    make: Callable[..., Creation],
    project: Path,
    tmp_path: Path,
    orders: pd.DataFrame,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    if script:
        (programs / "git").write_text(f"#!/bin/sh\n{script}\n")
        (programs / "git").chmod(0o755)
    monkeypatch.setenv("PATH", str(programs))
    with pytest.raises(SpecError, match=problem):
        make(orders)
    assert list(project.iterdir()) == []


def write_all_types(orders: pd.DataFrame, path: Path) -> None:
    """Write a Parquet file with columns of types that a model cannot use, or that are read as plainer ones."""
    rows = len(orders)
    columns = {
        "order_no": pa.array(orders["order_no"]),
        "sold_at": pa.array(pd.to_datetime(orders["sold_at"])),
        "wait": pa.array(orders["wait_min"]),
        "returned": pa.array(orders["returned"], from_pandas=True),
        "list": pa.array([["a"]] * rows),
        "struct": pa.array([{"x": 1}] * rows),
        "map": pa.array([[("a", 1)]] * rows, pa.map_(pa.string(), pa.int64())),
        "bytes": pa.array([b"a"] * rows),
        "duration": pa.array(range(rows), pa.duration("s")),
        "clock": pa.array([1] * rows, pa.time64("us")),
        "null": pa.nulls(rows),
        "decimal": pa.array(range(rows)).cast(pa.decimal128(30, 2)),
        "large_number": pa.array([2**63 + number for number in range(rows)], pa.uint64()),
        "large_text": pa.array(["a", "b"] * (rows // 2), pa.large_string()),
        "view": pa.array(["a", "b"] * (rows // 2), pa.string_view()),
        "code": pa.array(["a", "b"] * (rows // 2)).dictionary_encode(),
        "half": pa.array(np.arange(rows).astype(np.float16)),
    }
    pq.write_table(pa.table(columns), path)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({}, ""),
        ({"label": "list"}, "which no model predicts"),
        ({"key": ["struct"]}, "a key cannot have the type"),
        ({"time": "map"}, "does not hold dates or times"),
    ],
)
def test_columns_of_any_type(
    options: dict[str, Any], problem: str, home: Path, project: Path, tmp_path: Path, orders: pd.DataFrame
) -> None:
    write_all_types(orders, tmp_path / "rows.parquet")
    request = Request("orders", str(tmp_path / "rows.parquet"), **{"label": "returned", **options})
    if problem:
        with pytest.raises((DataError, SpecError), match=problem):
            create(request, project, refuse_to_ask)
        assert list(project.iterdir()) == []
        return
    plan = create(request, project, refuse_to_ask).plan
    unusable = ("list", "struct", "map", "bytes", "duration", "clock", "large_number")
    assert plan.dropped_columns == {**dict.fromkeys(unusable, "no model can use its type"), "null": "it is empty"}
    source = runpy.run_path(str(project / "datasets/orders/source.py"))
    assert source["open_source"]().read(plan.days[0].as_py()).read_all().num_rows == 60
