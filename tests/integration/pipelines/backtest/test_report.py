"""The report of a backtest, from real models in a real MLflow over real days."""

import datetime as dt
import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ibis
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.metrics import roc_auc_score

from pipelines.backtest import study
from pipelines.dataset import load_dataset
from pipelines.errors import DataError
from pipelines.features.building import build
from pipelines.lake import Lake
from pipelines.loop.study import DRIFT, MONTHLY, NEVER
from pipelines.loop.study import run_study as loop_study
from pipelines.steps import gate, guard, promote, record_outcome
from pipelines.system.files import write_json
from tests.tools.candidates import register
from tests.tools.policies import EASY, HARD


@pytest.fixture
def model(in_quarter: Path, trained: SimpleNamespace, mlflow_uri: str, monkeypatch: Any, fresh_settings: Any) -> str:
    """Versions 1 and 2, as of February and March; the lake has January to March."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", mlflow_uri)
    fresh_settings()
    shutil.copytree(trained.data, "data")
    return "report"


def version(model: str, as_of: str, passes: bool = True) -> str:
    path = Path("data/snapshot.json")
    write_json(path, {**json.loads(path.read_text()), "as_of": as_of})
    number = register(model)
    policy = EASY if passes else HARD
    gate.run(gate.GateSpec(model_name=model, version=number, policy=policy, backfill=True))
    return number


def test_the_report_is_right_and_sees_no_model_of_the_future(model: str, commands: Any, mlflow_uri: str) -> None:
    env = {"MLFLOW_TRACKING_URI": mlflow_uri}
    none = commands.step("backtest", "report", "--model", "nobody", "--dataset", "flights", env=env)
    assert (none.code, none.out) == (2, "")
    assert "no version of nobody that passed the gate. Backfill flights_train first" in none.err

    first, second, third = (version(model, f"2013-0{n}-01") for n in (2, 3, 4))
    refused = version(model, "2013-02-15", passes=False)
    told = study.run_study(model, load_dataset("flights"), None, None, 1, 0.02)
    assert [(one.version, one.passed) for one in told.models] == [
        (first, True), (refused, False), (second, True), (third, True),
    ]  # fmt: skip
    # April has no day, so its model scores nothing; the March model does not score February.
    assert [(str(one.days), set(one.auc)) for one in told.months] == [
        ("2013-02-01..2013-02-28", {first}),
        ("2013-03-01..2013-03-31", {first, refused, second}),
    ]
    monthly, never, _ = told.strategies
    assert [one.version for one in monthly.served] == [first, second]
    assert [one.version for one in never.served] == [first, first]
    assert told.months[0].auc[first] == pytest.approx(by_hand(model, first, "2013-02-01", "2013-02-28"), abs=1e-9)

    done = commands.step("backtest", "report", "--model", model, "--dataset", "flights", "--out", "report", env=env)
    assert done.code == 0, done.err
    assert f"mean AUC {np.mean(monthly.monthly_auc(told.months)):.4f}, 3 trainings, cost unknown" in done.out
    page = (commands.cwd / "report" / "backtest.html").read_text()
    assert f"{told.months[1].auc[second]:.4f}" in page
    assert (commands.cwd / "report" / "backtest.png").read_bytes().startswith(b"\x89PNG")


def by_hand(model: str, version: str, first: str, last: str) -> float:
    """The AUC of a month, another way: all rows at once from the lake, the booster from its files."""
    lake = Lake.open()
    days = pd.date_range(first, last)
    rows = pa.concat_tables([lake.read_partition("flights", day.date()) for day in days])
    frame = build(load_dataset("flights"), ibis.memtable(rows)).to_pandas()
    frame = frame[frame["late"].notna()]
    score = load_dataset("flights").load_model(Path("data/model")).score(frame)
    return float(roc_auc_score(frame["late"].astype(bool), score))


def training(model: str, as_of: str, trigger: str, passes: bool = True, champion: bool = True) -> tuple[str, str]:
    """What a run of the loop's steps leaves: its guard's answer, and the version that it made."""
    about = {"model_name": model, "run": f"flights_train/{trigger} {as_of}"}
    answer = guard.run(guard.GuardSpec(as_of=as_of, trigger=trigger, reason="wind", **about)).outcome
    if answer != "started":
        return answer, ""
    number = version(model, as_of, passes)
    if passes and champion:
        told = promote.PromoteSpec(model_name=model, version=number, verdict=Path("data/verdict.json"))
        assert promote.run(told).promoted
    record_outcome.run(record_outcome.RecordOutcomeSpec(version=number, **about))
    return answer, number


def test_a_loop_is_worth_what_its_champions_scored(model: str, commands: Any, mlflow_uri: str) -> None:
    """Each way's versions from the registry and the loop's own events; a day is scored by the one of before it."""
    begin, end = dt.date(2013, 2, 1), dt.date(2013, 3, 31)
    with pytest.raises(DataError, match="no version of report was promoted as of 2013-02-01"):
        loop_study(model, load_dataset("flights"), begin, end)
    _, first = training(model, "2013-02-01", "manual")
    _, monthly = training(model, "2013-03-01", "backfill", champion=False)
    assert training(model, "2013-02-03", "drift") == ("held_back", "")
    _, drifted = training(model, "2013-02-20", "drift")
    _, refused = training(model, "2013-03-10", "drift", passes=False)
    told = loop_study(model, load_dataset("flights"), begin, end)
    assert {one.name: [(now.version, str(now.since)) for now in one.served] for one in told.strategies} == {
        NEVER: [(first, "2013-02-01")],
        MONTHLY: [(first, "2013-02-01"), (monthly, "2013-03-01")],
        DRIFT: [(first, "2013-02-01"), (drifted, "2013-02-20")],
    }
    assert [len(one.runs) for one in told.strategies] == [1, 2, 3], f"{refused} was paid for, and served nobody"
    assert [one.cost_usd for one in told.strategies] == [None] * 3, "no training of these was charged"
    assert [str(one.days) for one in (told.weeks[0], told.weeks[-1])] == [
        "2013-02-01..2013-02-07", "2013-03-29..2013-03-31",
    ]  # fmt: skip
    assert told.weeks[0].auc[NEVER] == pytest.approx(by_hand(model, first, "2013-02-01", "2013-02-07"), abs=1e-9)
    assert [(str(one.day), one.what) for one in told.moments if one.what != "started"] == [
        ("2013-02-01", "promoted"), ("2013-02-03", "held_back"), ("2013-02-20", "passed"), ("2013-02-20", "promoted"),
        ("2013-03-10", "not_passed"),
    ]  # fmt: skip
    page = ("loop", "report", model, "--from", "2013-02-01", "--out", "loop")
    done = commands.step(*page, env={"MLFLOW_TRACKING_URI": mlflow_uri})
    assert done.code == 0, done.err
    assert f"{told.weeks[0].auc[NEVER]:.4f}" in (commands.cwd / "loop" / "loop.html").read_text()


def test_days_without_a_month_to_score_are_refused(model: str) -> None:
    version(f"{model}-late", "2013-03-02")
    with pytest.raises(DataError, match=r"no day in a month that begins on 2013-03-02 or later"):
        study.run_study(f"{model}-late", load_dataset("flights"), None, None, 1, 0.02)
    version(f"{model}-no", "2013-02-01", passes=False)
    with pytest.raises(DataError, match="that passed the gate"):
        study.run_study(f"{model}-no", load_dataset("flights"), None, None, 1, 0.02)


def test_days_that_are_none_are_said(model: str, commands: Any) -> None:
    for given, said in (
        (("--from", "March"), "--from 'March' is not a day"),
        (("--from", "2013-03-01", "--to", "2013-02-01"), "is after --to"),
        (("--drop", "2"), "--drop"),
    ):
        done = commands.step("backtest", "report", *given)
        assert (done.code, done.out) == (2, "")
        assert said in done.err
        assert "Traceback" not in done.err
