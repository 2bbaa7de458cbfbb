"""Test `python -m pipelines plan` with a real ledger and a real MLflow: tables, JSON, chart, page, and bad input."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient
from typer.testing import CliRunner, Result

from pipelines.cli.app import build_app
from pipelines.costs.ledger import Ledger
from pipelines.errors import DataError, SpecError
from tests.tools.ledger_rows import make_row

SIZE = ("--params", "7e9", "--tokens", "1e9")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(build_app("plan"), ["plan", *arguments], catch_exceptions=False)


@pytest.fixture(autouse=True)
def region(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Use a home of its own, and prices of us-east-1."""
    monkeypatch.setenv("AWS_REGION", "us-east-1")


@pytest.fixture
def add_rows(home: Path) -> Callable[..., None]:
    """Return the function that adds past jobs to the ledger."""

    def add(*rows: dict[str, Any]) -> None:
        Ledger.open().add(rows)

    return add


def test_a_language_model(home: Path, tmp_path: Path) -> None:
    files = {"--png": tmp_path / "plan.png", "--html": tmp_path / "out" / "plan.html"}
    options = [word for name, path in files.items() for word in (name, str(path))]
    output = run(*SIZE, "--deadline", "24h", "--budget", "1000", "--allow", "ml.g5.*,ml.p4d.*", *options).stdout
    assert re.search(r"Cheapest: ml\.p4d\.24xlarge on demand in us-east-1: \d+\.\d h, \d+\.\d\d USD", output)
    assert re.search(r"Fastest: 8 x ml\.p4d\.24xlarge on demand", output)
    assert "past the deadline: ml.g5.xlarge" in output and "over the budget: ml.g5.12xlarge" in output
    assert "Prices: of 2025-01-01: the oldest are" in output and "prices refresh" in output
    assert "unknown" in output, "savings plans have no price"
    assert files["--png"].read_bytes().startswith(b"\x89PNG")
    page = files["--html"].read_text()
    assert "ml.p4d.24xlarge on demand" in page and "data:image/png;base64," in page and "past the deadline" in page


def test_json(add_rows: Callable[..., None]) -> None:
    record = json.loads(run(*SIZE, "--method", "lora", "--allow", "ml.g5.*", "--json").stdout)
    assert record["cheapest"]["instance_type"].startswith("ml.g5.") and record["cheapest"]["plan_usd"]["1y"] is None
    assert record["price_dates"] == ["2025-01-01"] and record["accuracy"] is None
    kinds = {entry["kind"] for entry in record["exclusions"]}
    assert kinds <= {"price", "memory", "on demand"} and "on demand" in kinds, "the saving by spot is not in the table"
    assert set(record["limits"].values()) == {None}, record["limits"]


def test_past_jobs_of_a_model(add_rows: Callable[..., None]) -> None:
    spot = {"spot": True, "saving": 0.7, "first_capacity_s": 60.0, "cpu_mean": 150, "memory_peak": 5}
    add_rows(*(make_row(n, training_s=3_000 + n, **spot) for n in range(6)), make_row(9, model="other"))
    record = json.loads(run("--like", "flights", "--allow", "ml.m5.*,ml.c5.*,ml.g5.xlarge", "--json").stdout)
    assert record["workload"].startswith("flights: 5 past job(s) of 3,003 s on ml.m5.2xlarge, 1.5 busy vCPUs")
    base = [option for option in record["options"] if option["instance_type"] == "ml.m5.2xlarge"]
    assert {option["market"] for option in base} == {"on demand", "spot"}
    on_demand, on_spot = sorted(base, key=lambda option: option["market"])
    assert on_spot["cost_usd"] == pytest.approx(on_demand["cost_usd"] * 0.3, rel=1e-3)
    assert on_spot["finish_s"] == pytest.approx(on_spot["seconds"] + 60)
    assert record["cheapest"]["instance_type"] != "ml.m5.2xlarge", "a smaller type has enough vCPUs"
    assert record["accuracy"]["jobs"] == 5 and record["accuracy"]["raw_error"] < 0.01
    assert any(entry["instance_type"] == "ml.g5.xlarge" for entry in record["exclusions"])
    assert "Accuracy: 5 past job(s)" in run("--like", "flights", "--allow", "ml.m5.*").stdout


def test_the_size_of_the_data(add_rows: Callable[..., None]) -> None:
    gib = 2**30
    add_rows(*(make_row(n, training_s=600 + 300 * n, input_bytes=n * gib) for n in (1, 2, 4, 3)))
    arguments = ("--like", "flights", "--allow", "ml.m5.2xlarge")
    record = json.loads(run(*arguments, "--json").stdout)
    assert record["workload"].startswith(
        "flights: 1,800 s for 4 GiB of data, the newest known size, from 4 past job(s) with"
    )
    record = json.loads(run(*arguments, "--data-size", "2560 MiB", "--json").stdout)
    assert record["workload"].startswith("flights: 1,350 s for 2.5 GiB of data, from 4 past job(s) with 1 GiB to 4 GiB")
    (option,) = record["options"]
    assert option["basis"] == "sized" and option["uncorrected_s"] == pytest.approx(1_350)
    assert record["accuracy"]["jobs"] == 3
    output = run(*arguments, "--data-size", "40GiB").stdout
    assert "risk: past jobs had 1 GiB to 4 GiB of data: the time is extrapolated" in output.replace("\n", " ")
    far = json.loads(run(*arguments, "--data-size", "40GiB", "--json").stdout)["options"][0]
    assert far["high_s"] / far["low_s"] > 5 * option["high_s"] / option["low_s"], "no past job had so much data"


def test_a_size_without_sizes_in_the_ledger_is_refused(add_rows: Callable[..., None]) -> None:
    add_rows(*(make_row(n) for n in range(3)))
    with pytest.raises(SpecError, match="--data-size has no effect: the ledger has no past job of flights"):
        run("--like", "flights", "--data-size", "3GiB")
    assert "past job(s) of 3,600 s" in run("--like", "flights", "--allow", "ml.m5.2xlarge").stdout


def test_left_out_has_a_line_only_if_something_was(add_rows: Callable[..., None]) -> None:
    spot = {"spot": True, "saving": 0.7, "first_capacity_s": 60.0, "cpu_mean": 150, "memory_peak": 5}
    add_rows(*(make_row(n, training_s=3_000 + n, **spot) for n in range(6)))
    output = run("--like", "flights", "--allow", "ml.m5.2xlarge").stdout
    assert "Cheapest: ml.m5.2xlarge spot" in output and "Left out" not in output
    assert "\n\nLeft out:\n- " in run("--like", "flights", "--allow", "ml.m5.2xlarge,ml.g5.xlarge").stdout


def test_a_version_of_the_registry(add_rows: Callable[..., None], with_mlflow: str) -> None:
    rows = [make_row(n, training_s=1_000 * n, model="planned", name=f"planned-{n}") for n in (1, 2, 3)]
    add_rows(*rows)
    client = MlflowClient(with_mlflow, with_mlflow)
    client.create_registered_model("planned")
    for row in rows[:2]:
        tags = {"leeway.training_job_arn": row["arn"]}
        client.create_model_version("planned", "s3://nowhere/model", tags=tags)
    client.create_model_version("planned", "s3://nowhere/model", tags={"leeway.training_job_arn": "arn:gone"})
    client.set_registered_model_alias("planned", "champion", "2")

    def read_workload(like: str) -> str:
        return str(json.loads(run("--like", like, "--allow", "ml.m5.*", "--json").stdout)["workload"])

    assert "1 past job(s) of 1,000 s" in read_workload("planned@1")
    assert "2 past job(s) of 1,500 s" in read_workload("planned@champion")
    assert "3 past job(s) of 2,000 s" in read_workload("planned")
    assert "1 past job(s) of 3,000 s" in read_workload("planned-3")
    with pytest.raises(DataError, match=r"no row of the training of planned@3 \(arn:gone\)"):
        run("--like", "planned@3")
    with pytest.raises(DataError, match="no planned version 9"):
        run("--like", "planned@9")


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((), SpecError, "give either --like, or --params and --tokens"),
        (("--like", "flights", *SIZE), SpecError, "give either --like, or --params and --tokens"),
        (("--params", "7e9"), SpecError, "--tokens is missing"),
        (("--params", "many", "--tokens", "1"), SpecError, "--params 'many' is not a number"),
        (("--params", "-7e9", "--tokens", "1e9"), SpecError, "params must be a positive number"),
        (("--params", "nan", "--tokens", "1e9"), SpecError, "params must be a positive number"),
        (("--like", "flights", "--method", "lora"), SpecError, "--method has no effect beside --like"),
        (("--like", "flights", "--max-instances", "2"), SpecError, "--max-instances has no effect beside --like"),
        ((*SIZE, "--data-size", "3GiB"), SpecError, "--data-size has no effect without --like"),
        (("--like", "flights", "--data-size", "3"), SpecError, "--data-size '3' is not an amount of data"),
        (("--like", "flights", "--data-size", "0GiB"), SpecError, "--data-size must be from 1 B to 1024 PiB"),
        (("--like", "flights", "--data-size", ""), SpecError, "--data-size is empty"),
        (("--like", "flights"), DataError, "the ledger has no completed training of flights"),
        (("--like", "@3"), SpecError, "is not of the form MODEL@VERSION"),
        ((*SIZE, "--max-instances", "0"), SpecError, "must be from 1 to 64"),
        ((*SIZE, "--deadline", "2020-01-01"), SpecError, "is in the past"),
        ((*SIZE, "--budget", "500 EUR"), SpecError, "is not an amount of USD"),
        ((*SIZE, "--budget", "-5"), SpecError, "must be more than 0"),
        ((*SIZE, "--allow", "ml.p3.2xlarge"), SpecError, "ml.p3.2xlarge is retired"),
        ((*SIZE, "--allow", "ml.g5.nix"), SpecError, "is not an instance type"),
        ((*SIZE, "--allow", "ml.inf2.xlarge"), SpecError, "SageMaker trains on none of ml.inf2.xlarge"),
        ((*SIZE, "--regions", "mars-north-1"), DataError, "no price is known in mars-north-1"),
        ((*SIZE, "--as-of", "2020-01-01"), DataError, "no price is known in us-east-1 on 2020-01-01"),
        ((*SIZE, "--deadline", "1h", "--budget", "1"), DataError, "no instance type fits"),
        ((*SIZE, "--budget", "500,00"), SpecError, "the budget '500,00' is ambiguous"),
        ((*SIZE, "--budget", "None"), SpecError, "the budget 'None' is not an amount of USD"),
        ((*SIZE, "--deadline", "None"), SpecError, "the deadline 'None' is neither a duration nor a time"),
        ((*SIZE, "--budget", ""), SpecError, "--budget is empty"),
        ((*SIZE, "--deadline", " "), SpecError, "--deadline is empty"),
        ((*SIZE, "--allow", ","), SpecError, "--allow is empty"),
        ((*SIZE, "--regions", ""), SpecError, "--regions is empty"),
        ((*SIZE, "--as-of", ""), SpecError, "--as-of is empty"),
        (("--like", ""), SpecError, "--like is empty"),
        (("--params", "7e9", "--tokens", "1e-300"), SpecError, "tokens must be at least 1"),
        (("--params", "7e9", "--tokens", "1e400"), SpecError, "tokens must be a positive number, not inf"),
        ((*SIZE, "--sequence", "0"), SpecError, "sequence must be a positive number"),
        ((*SIZE, "--precision", "fp99"), SpecError, "precision must be one of"),
        ((*SIZE, "--png", "/dev/null"), SpecError, "--png /dev/null is not a regular file"),
        ((*SIZE, "--html", "/"), SpecError, "--html / is not a regular file"),
        ((*SIZE, "--html", "plan.html", "--png", "./plan.html"), SpecError, "--png and --html are the same file"),
    ],
)
def test_bad_input_is_one_clear_line(arguments: tuple[str, ...], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)) as raised:
        run(*arguments)
    assert "\n" not in str(raised.value)


def test_a_plan_of_one_token_and_of_the_largest_training() -> None:
    """Neither has a traceback, or a figure that JSON does not have."""
    for params, tokens in (("5e7", "1"), ("1e13", "1e15")):
        result = CliRunner().invoke(build_app("plan"), ["plan", "--params", params, "--tokens", tokens, "--json"])
        assert isinstance(result.exception, DataError | None)
        assert "Infinity" not in result.stdout and "NaN" not in result.stdout
        assert json.loads(result.stdout)["workload"]


def test_the_region_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_REGION")
    with pytest.raises(SpecError, match="Give --regions, or set AWS_REGION"):
        run(*SIZE)


def test_a_plan_that_nothing_fits_writes_json_and_fails() -> None:
    runner = CliRunner()
    result = runner.invoke(build_app("plan"), ["plan", *SIZE, "--budget", "1", "--allow", "ml.p4d.*", "--json"])
    assert isinstance(result.exception, DataError)
    assert "The cheapest is ml.p4d.24xlarge on demand" in str(result.exception)
    assert json.loads(result.stdout)["options"] == []


def test_regions_are_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    groups = [
        {"regions": [name], "usd_per_hour": {"ml.p4d.24xlarge": usd}} for name, usd in (("here", 30), ("there", 20))
    ]
    (tmp_path / "own.json").write_text(json.dumps({"as_of": "2026-10-01", "prices": groups}))
    monkeypatch.setenv("LEEWAY_PRICES", str(tmp_path / "own.json"))
    arguments = ("--regions", "here,there", "--allow", "ml.p4d.24xlarge", "--json")
    record = json.loads(run(*SIZE, *arguments).stdout)
    assert record["cheapest"]["region"] == "there" and record["price_dates"] == ["2026-10-01"]
