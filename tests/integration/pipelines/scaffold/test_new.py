"""Test `python -m pipelines new`: what it infers, what it writes, what it asks for, and what it refuses."""

import json
import runpy
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from pipelines.errors import DataError, SpecError
from pipelines.scaffold import source_code
from pipelines.scaffold.creation import Creation, create
from pipelines.scaffold.request import Request, refuse_to_ask
from pipelines.steps import load_spec_class
from tests.tools import orders_file

LABEL = {"label": "returned"}
CHECKOUT = Path(__file__).parents[4]


def list_files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file() and ".git/" not in str(path)}


def test_a_project_and_two_models_are_made_and_pass_the_style_check(
    make: Callable[..., Creation], project: Path, orders: pd.DataFrame
) -> None:
    creation = make(orders)
    plan = creation.plan
    assert (plan.time, list(plan.key), plan.label.task) == ("sold_at", ["order_no"], "binary")
    assert dict(plan.features) == {"store": "category", "depot": "category", "km": "number", "wait_min": "number"}
    assert list(plan.known_later) == ["overdue_min"], "it predicts the label"
    assert plan.label.texts == ("yes", "no")
    assert list_files(project) == set(creation.files)
    assert (project / ".git").is_dir()
    make(orders, "parcels", task="regression", label="wait_min", known_before=["overdue_min"])
    assert yaml.safe_load((project / "dvc.yaml").read_text())["vars"] == [{"models": ["orders", "parcels"]}]
    for command in ("check", "format --check"):
        style = subprocess.run(
            [sys.executable, "-m", "ruff", *command.split(), "."], cwd=project, capture_output=True, text=True
        )
        assert style.returncode == 0, style.stdout
    for path in (project / "models").glob("*/params.yaml"):
        for step, section in yaml.safe_load(path.read_text()).items():
            load_spec_class(step).check(section, str(path))


def test_stages_depend_on_all_datasets_so_that_models_may_share_one(
    make: Callable[..., Creation], project: Path, orders: pd.DataFrame
) -> None:
    make(orders)
    stages = yaml.safe_load((project / "dvc.yaml").read_text())["stages"]
    for name in ("snapshot", "preprocess", "train", "evaluate", "gate"):
        assert "../../datasets" in stages[name]["deps"], name
        assert not any("datasets/${" in dep for dep in stages[name]["deps"]), name


def test_a_model_in_a_checkout_is_a_dependency_of_its_stages_and_passes_the_style_check(
    make: Callable[..., Creation], project: Path, orders: pd.DataFrame
) -> None:
    """In the checkout, the stages depend on the folders of Leeway's code."""
    for name in ("dvc.yaml", "params.yaml", "pyproject.toml"):
        shutil.copyfile(CHECKOUT / name, project / name)
    (project / "pipelines").symlink_to(CHECKOUT / "pipelines")
    for model in ("orders", "parcels"):
        make(orders, model)
    document = yaml.safe_load((project / "dvc.yaml").read_text())
    assert document["vars"][0]["models"][-2:] == ["orders", "parcels"]
    stages = {name: stage["deps"] for name, stage in document["stages"].items()}
    assert {name for name, deps in stages.items() if "../../pipelines/datasets" in deps} >= {
        "preprocess",
        "train",
        "gate",
    }
    for name, deps in stages.items():
        assert deps.count("../../datasets") == deps.count("../../pipelines/datasets"), name
    style = subprocess.run(
        [sys.executable, "-m", "ruff", "check", "datasets", "dags", "tests"],
        cwd=project,
        capture_output=True,
        text=True,
    )
    assert style.returncode == 0, style.stdout


@pytest.mark.parametrize(
    ("options", "measured", "estimated"),
    [
        ({}, {"label_rate", "auc"}, {"estimated_auc"}),
        ({"label": "depot"}, {"recall"}, {"estimated_accuracy", "estimated_macro_auc"}),
        ({"label": "wait_min", "known_before": ["overdue_min"]}, {"mae"}, {"estimated_mae"}),
    ],
)
@pytest.mark.parametrize("delay", [1, 8])
def test_drift_has_bounds_of_the_task_and_estimates_where_labels_come_late(
    delay: int,
    options: dict[str, Any],
    measured: set[str],
    estimated: set[str],
    make: Callable[..., Creation],
    project: Path,
    orders: pd.DataFrame,
) -> None:
    make(orders, label_delay_days=delay, **options)
    section = yaml.safe_load((project / "models/orders/params.yaml").read_text())["drift"]
    load_spec_class("drift").check(section, "params.yaml")
    assert section["retrain_on"] == ("performance" if delay == 1 else "any")
    bounds = section["policy"]["bounds"].keys() - {"psi", "missing", "unseen"}
    assert bounds == (measured if delay == 1 else measured | estimated)


def test_the_drafted_expectations_say_that_they_are_of_less_than_a_year(
    make: Callable[..., Creation], project: Path, orders: pd.DataFrame
) -> None:
    make(orders)
    suite = json.loads((project / "expectations/orders.json").read_text())
    assert "45 days, less than a year" in suite["meta"]["about"]
    assert {rule["type"] for rule in suite["expectations"] if rule["severity"] == "critical"} == {
        "expect_table_columns_to_match_set",
        "expect_column_values_to_not_be_null",
        "expect_column_values_to_be_unique",
    }


def test_dates_in_two_formats(make: Callable[..., Creation], orders: pd.DataFrame) -> None:
    plan = make(orders_file.write_dates_in_two_formats(orders)).plan
    assert plan.columns["sold_at"].time and plan.columns["sold_at"].time.formats == ["%d.%m.%Y"]
    assert [str(day) for day in plan.days] == list(orders["sold_at"].str[:10])
    assert not plan.has_time_of_day
    day = plan.days[0].as_py()
    assert source_code.build_source(plan).read(day).read_all().num_rows == 60


def test_numbers_with_decimal_commas(home: Path, project: Path, tmp_path: Path, orders: pd.DataFrame) -> None:
    """A spreadsheet in most of Europe writes CSV so: semicolons, and commas before decimals."""
    orders.assign(km=orders["km"] + 0.25).to_csv(tmp_path / "orders.csv", index=False, sep=";", decimal=",")
    request = Request("orders", str(tmp_path / "orders.csv"), **LABEL)
    plan = create(request, project, refuse_to_ask).plan
    assert plan.features["km"] == "number"
    assert 'decimal_point=","' in (project / "datasets/orders/source.py").read_text()
    rows = source_code.build_source(plan).read(plan.days[0].as_py()).read_all()
    assert rows["km"][0].as_py() == orders["km"].iloc[0] + 0.25


@pytest.mark.parametrize("name", ["Date", "date"])
def test_a_column_with_the_name_of_the_partition(
    name: str, make: Callable[..., Creation], project: Path, orders: pd.DataFrame
) -> None:
    plan = make(orders.rename(columns={"sold_at": name})).plan
    assert (plan.time, list(plan.key), plan.has_time_of_day) == (name, ["order_no"], False)
    rows = source_code.build_source(plan).read(plan.days[0].as_py()).read_all()
    assert [column for column in rows.column_names if column.lower() == "date"] == ["date"]
    assert "hour" not in (project / "datasets/orders/features.py").read_text()


def test_a_label_with_missing_values(make: Callable[..., Creation], orders: pd.DataFrame) -> None:
    missing = int(orders["returned"].isna().sum())
    creation = make(orders)
    assert creation.plan.label.values.null_count == missing > 20
    assert creation.sizes.rows == len(orders) - missing


def test_60_columns_with_ids_constants_and_free_text(
    make: Callable[..., Creation], project: Path, orders: pd.DataFrame
) -> None:
    plan = make(orders_file.add_columns(orders)).plan
    expected = {
        "uid_": "an id",
        "const_": "it has one value",
        "empty_": "it is empty",
        "note_": "free text",
        "day_": "a time, but not that of the row",
    }
    for prefix, reason in expected.items():
        assert {plan.dropped_columns.get(name) for name in plan.columns if name.startswith(prefix)} == {reason}, prefix
    kinds = {name.split("_")[0]: kind for name, kind in plan.features.items()}
    assert (kinds["flag"], kinds["measure"], kinds["code"]) == ("number", "number", "category")
    assert len(plan.features) == 4 + 6 + 12 + 10
    source = (project / "datasets/orders/source.py").read_text()
    assert 'nulls=("", "NA")' in source and "uid_0: an id" in source


def write_parquet_days(orders: pd.DataFrame, folder: Path) -> str:
    for day, rows in orders.groupby(orders["sold_at"].str[:10]):
        rows.drop(columns="sold_at").to_parquet(folder / f"sales-{day}.parquet")
    return str(folder)


def write_database(orders: pd.DataFrame, folder: Path) -> str:
    with closing(sqlite3.connect(folder / "shop.db")) as database:
        columns = "order_no INTEGER PRIMARY KEY, sold_at TIMESTAMP, store TEXT, depot TEXT, km INTEGER, wait_min REAL"
        columns += ", overdue_min REAL, returned TEXT"
        database.execute(f"CREATE TABLE sales ({columns})")
        rows = orders.assign(sold_at=orders["sold_at"] + ":00").astype(object).where(orders.notna(), None)
        database.executemany(f"INSERT INTO sales VALUES ({', '.join('?' * 8)})", rows.values.tolist())
        database.commit()
    return f"sqlite:///{folder}/shop.db"


@pytest.mark.parametrize(
    ("write", "options", "time"), [(write_parquet_days, {}, ""), (write_database, {"table": "sales"}, "sold_at")]
)
def test_other_sources(
    write: Callable[[pd.DataFrame, Path], str],
    options: dict[str, str],
    time: str,
    home: Path,
    project: Path,
    tmp_path: Path,
    orders: pd.DataFrame,
) -> None:
    folder = tmp_path / "rows"
    folder.mkdir()
    plan = create(Request("orders", write(orders, folder), **LABEL, **options), project, refuse_to_ask).plan
    assert (plan.time, list(plan.key), plan.sample.table.num_rows) == (time, ["order_no"], len(orders))
    source = runpy.run_path(str(project / "datasets/orders/source.py"))["open_source"]()
    assert source.read(plan.days[0].as_py()).read_all().num_rows == 60


def test_an_http_api(
    serve: Callable[[Path], str], commands: Any, project: Path, tmp_path: Path, orders: pd.DataFrame
) -> None:
    folder = tmp_path / "api"
    folder.mkdir()
    for day, rows in orders.groupby(orders["sold_at"].str[:10]):
        (folder / str(day)).write_text(json.dumps({"items": json.loads(rows.to_json(orient="records"))}))
    url = f"{serve(folder)}/{{date}}"
    with pytest.raises(SpecError, match="Give --first and --last"):
        create(Request("orders", url, rows="items", **LABEL), project, refuse_to_ask)
    first, last = (pd.Timestamp(orders["sold_at"].iloc[n]).date() for n in (0, -1))
    request = Request("orders", url, rows="items", first=first, last=last, **LABEL)
    assert create(request, project, refuse_to_ask).plan.sample.table.num_rows == len(orders)
    environment = {"LEEWAY_PROJECT": str(project), "LEEWAY_HOME": str(tmp_path / "home")}
    check = commands.run_step("check", "orders", "--json", env=environment, cwd=project)
    assert check.code == 0, check.err
    assert [answer["outcome"] for answer in json.loads(check.out)] == [
        "not yet",
        "not yet",
        "yes",
        "not yet",
        "not yet",
        "yes",
        "not yet",
        "yes",
    ]


def swap_day_and_month(orders: pd.DataFrame) -> pd.DataFrame:
    """Return orders whose dates are days up to the 12th, written as 05/01/2013."""
    times = pd.to_datetime(orders["sold_at"])
    months = times.dt.dayofyear // 12 + 1
    return orders.assign(
        sold_at=[f"{day % 12 + 1:02}/{month:02}/2013" for day, month in zip(times.dt.day, months, strict=True)]
    )


def test_an_ambiguous_order_of_day_and_month_is_refused_until_a_format_is_given(
    make: Callable[..., Creation], orders: pd.DataFrame
) -> None:
    table = swap_day_and_month(orders)
    with pytest.raises(SpecError, match=r"which the month\. Give --time-format\. One of: %d/%m/%Y"):
        make(table)
    assert make(table, time_formats=["%d/%m/%Y"]).plan.request.time_formats == ["%d/%m/%Y"]


CASES: dict[str, tuple[Callable[[pd.DataFrame], pd.DataFrame], dict[str, Any], str]] = {
    "no time": (lambda rows: rows.drop(columns="sold_at"), {}, "holds dates or times"),
    "one class": (lambda rows: rows.assign(returned="no"), {}, "each row has the label no"),
    "no label": (
        lambda rows: rows.rename(columns={"returned": "state"}),
        {"label": ""},
        "the column to predict is not given. Give --label",
    ),
    "unknown label": (lambda rows: rows, {"label": "profit"}, "--label 'profit' is not a column"),
    "three values": (lambda rows: rows, {"label": "depot", "task": "binary"}, "has 3 different values"),
    "text to regress": (lambda rows: rows, {"label": "store", "task": "regression"}, "is not a number"),
    "unknown task": (lambda rows: rows, {"task": "ranking"}, "--task 'ranking' is unknown"),
    "unknown positive": (lambda rows: rows.replace({"returned": {"yes": "back", "no": "kept"}}), {}, "Give --positive"),
    "positive of booleans": (
        lambda rows: rows.assign(returned=rows["returned"] == "yes"),
        {"positive": "false"},
        "returned has the type bool, and true is the positive value",
    ),
    "equal rows": (
        lambda rows: pd.concat([rows.drop(columns="order_no"), rows.drop(columns="order_no")]),
        {},
        "no columns identify a row",
    ),
    "a key that is equal in rows": (lambda rows: rows, {"key": ["store"]}, "several rows of a day have the same key"),
    "a key that is missing": (
        lambda rows: rows.assign(order_no=rows["order_no"].where(rows.index > 3)),
        {"key": ["order_no"]},
        "4 rows have no value in this column",
    ),
    "the label as the key": (lambda rows: rows, {"key": ["returned"]}, "is not known when the prediction is made"),
    "no such format": (lambda rows: rows, {"time_formats": ["%Q"]}, "no value of sold_at has the format '%Q'"),
    "few days": (lambda rows: rows.head(600), {}, "has 10 days with labels"),
    "few rows": (lambda rows: rows.head(50), {}, "has 50 rows"),
    "a bad time": (
        lambda rows: rows.assign(sold_at=["soon", *rows["sold_at"][1:]]),
        {},
        "'soon' is not a time that can be read",
    ),
    "two columns of a name": (lambda rows: rows.rename(columns={"km": "STORE"}), {}, "two columns STORE"),
    "a bad name": (lambda rows: rows, {"name": "my-orders"}, "'my-orders' is not a name for a model"),
    "an example's name": (lambda rows: rows, {"name": "flights"}, "there is already a dataset flights"),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_impossible_or_unknown_is_one_line_and_writes_nothing(
    case: str, make: Callable[..., Creation], project: Path, orders: pd.DataFrame
) -> None:
    change, options, problem = CASES[case]
    with pytest.raises((SpecError, DataError)) as error:
        make(change(orders), **options)
    assert problem in str(error.value)
    assert "\n" not in str(error.value)
    assert list(project.iterdir()) == []


def test_an_existing_name_is_refused(make: Callable[..., Creation], project: Path, orders: pd.DataFrame) -> None:
    make(orders)
    before = {name: (project / name).read_bytes() for name in list_files(project)}
    with pytest.raises(SpecError, match="the project already has a model orders"):
        make(orders)
    (project / "tests/test_parcels.py").write_text("")
    with pytest.raises(SpecError, match=r"test_parcels\.py exists already"):
        make(orders, "parcels")
    (project / "tests/test_parcels.py").unlink()
    assert {name: (project / name).read_bytes() for name in list_files(project)} == before


KILLED = """
import os, signal, sys
replace, calls = os.replace, []
def replace_or_die(source, target):
    calls.append(target)
    if len(calls) == 5:
        os.kill(os.getpid(), {signal})
    return replace(source, target)
os.replace = replace_or_die
from pathlib import Path
from pipelines.scaffold.creation import create
from pipelines.scaffold.request import Request, refuse_to_ask
create(Request("orders", sys.argv[1], label="returned"), Path("."), refuse_to_ask)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_kill_while_the_files_are_moved_leaves_no_model(
    number: int, commands: Any, make: Callable[..., Creation], project: Path, tmp_path: Path, orders: pd.DataFrame
) -> None:
    """After SIGKILL, the next run removes what is left."""
    orders.to_csv(tmp_path / "orders.csv", index=False)
    script = KILLED.format(signal=int(number))
    environment = {"LEEWAY_PROJECT": str(project), "LEEWAY_HOME": str(tmp_path / "home")}
    process = commands.run(sys.executable, "-c", script, str(tmp_path / "orders.csv"), env=environment, cwd=project)
    assert process.code != 0
    assert not (project / "params.yaml").exists(), "the folder is no project"
    if number == signal.SIGTERM:
        assert list_files(project) == set()
    else:
        assert list_files(project), "the negative control: something was moved"
    creation = make(orders)
    assert list_files(project) == set(creation.files)


def test_the_command_prints_a_page_or_json(commands: Any, project: Path, tmp_path: Path, orders: pd.DataFrame) -> None:
    orders.to_csv(tmp_path / "orders.csv", index=False)
    environment = {"LEEWAY_PROJECT": str(project)}
    command = ("new", "--source", str(tmp_path / "orders.csv"))
    process = commands.run_step(*command, "orders", env=environment, cwd=project)
    assert process.code == 0, process.err
    assert "orders: predicts returned (binary)" in process.out
    assert "overdue_min: it alone predicts the label" in process.out
    process = commands.run_step(*command, "parcels", "--json", env=environment, cwd=project)
    assert json.loads(process.out)["features"].keys() == {"store", "depot", "km", "wait_min"}
    process = commands.run_step(*command, "parcels", env=environment, cwd=project)
    assert (process.code, process.out) == (2, "")
    assert "error: the project already has a model parcels. Choose another name." in process.err
