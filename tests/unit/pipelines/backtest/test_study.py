"""Who would have served in which month, what it would have cost, and what the page says of it."""

import datetime as dt
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from pipelines.backtest import page as backtest_page
from pipelines.backtest import study as backtest
from pipelines.backtest.study import Month, Study, TrainedModel, compare_strategies
from pipelines.datasets.flights import DATASET
from pipelines.window import DAY, Days


def model(month: int, holdout: float = 0.70, passed: bool = True, cost: float | None = 0.5) -> TrainedModel:
    return TrainedModel(str(month), dt.date(2013, month, 1), passed, holdout, cost)


def month(number: int, **auc: float) -> Month:
    """A month in which version vN has the AUC; what is known of it at its end is the same."""
    told = {name.removeprefix("v"): value for name, value in auc.items()}
    first = dt.date(2013, number, 1)
    return Month(Days(first, (first + 31 * DAY).replace(day=1) - DAY), 1_000, told, told)


MODELS = [model(2), model(3), model(4), model(5)]
MONTHS = [
    month(2, v2=0.69),
    month(3, v2=0.66, v3=0.70),
    month(4, v2=0.60, v3=0.69, v4=0.71),
    month(5, v2=0.61, v3=0.68, v4=0.69, v5=0.72),
]


def served(models: list[TrainedModel], months: list[Month], drop: float = 0.02) -> dict[str, list[str]]:
    return {one.name: [model.version for model in one.served] for one in compare_strategies(models, months, drop)}


def needed(models: list[TrainedModel], months: list[Month], drop: float = 0.02) -> dict[str, list[str]]:
    return {one.name: [model.version for model in one.trained] for one in compare_strategies(models, months, drop)}


def test_the_three_ways() -> None:
    assert served(MODELS, MONTHS) == {
        "retrain monthly": ["2", "3", "4", "5"],
        "never retrain": ["2", "2", "2", "2"],
        # February was well; March fell from 0.70 to 0.66, so April has a new model, which then does well.
        "on drift": ["2", "2", "4", "4"],
    }
    assert needed(MODELS, MONTHS)["on drift"] == ["2", "4"]


@pytest.mark.parametrize(("drop", "expected"), [(0.005, ["2", "3", "5"]), (0.2, ["2"])])
def test_drift_is_by_the_drop(drop: float, expected: list[str]) -> None:
    assert needed(MODELS, MONTHS, drop)["on drift"] == expected


def test_drift_is_told_by_what_was_known_at_the_months_end() -> None:
    """Not by labels of the last days, which came later."""
    late = [Month(one.days, one.rows, one.auc, {**one.known_auc, "2": 0.69}) for one in MONTHS]
    assert needed(MODELS, late)["on drift"] == ["2"]
    unknown = [Month(one.days, one.rows, one.auc, {}) for one in MONTHS]
    assert needed(MODELS, unknown)["on drift"] == ["2"], "where nothing was known nothing is decided"


def test_a_refused_model_costs_and_serves_nobody() -> None:
    models = [MODELS[0], MODELS[1], model(4, passed=False), MODELS[3]]
    months = [
        Month(one.days, one.rows, {k: v for k, v in one.auc.items() if k != "4"}, one.known_auc) for one in MONTHS
    ]
    assert served(models, months)["retrain monthly"] == ["2", "3", "3", "5"]
    assert needed(models, months)["retrain monthly"] == ["2", "3", "4", "5"]
    # Still adrift in April, so in May it is tried again.
    assert served(models, months)["on drift"] == ["2", "2", "2", "5"]
    assert needed(models, months)["on drift"] == ["2", "4", "5"]


def test_all_begin_with_the_newest_model_of_the_first_month() -> None:
    assert served(MODELS, MONTHS[2:])["never retrain"] == ["4", "4"]
    assert needed(MODELS, MONTHS[2:])["retrain monthly"] == ["4", "5"]


def test_cost_is_of_all_trainings_or_unknown() -> None:
    monthly, never, drift = compare_strategies(MODELS, MONTHS, 0.02)
    assert (monthly.cost_usd, never.cost_usd, drift.cost_usd) == (2.0, 0.5, 1.0)
    monthly, never, _ = compare_strategies([*MODELS[:3], model(5, cost=None)], MONTHS, 0.02)
    assert (monthly.cost_usd, never.cost_usd) == (None, 0.5)


def test_the_ledgers_rows_of_a_run_are_added_up() -> None:
    def version(number: int, as_of: str, run: str, verdict: str) -> Any:
        tags = {"leeway.as_of": as_of, "leeway.dag_run": run, "leeway.verdict": verdict}
        return SimpleNamespace(version=number, tags=tags, name="m")

    odd = SimpleNamespace(version=4, tags={}, name="m")
    found = [
        version(1, "2013-03-01", "d/r1", "passed"),
        version(2, "2013-02-01", "d/r2", "failed"),
        version(3, "2013-03-01", "d/r3", "passed"),
        odd,
    ]
    registry: Any = SimpleNamespace(list_versions=lambda name: found, get_metrics=lambda version: {"holdout_auc": 0.7})
    rows = [{"dag_id": "d", "run_id": run, "cost_usd": cost} for run, cost in (("r1", 9.0), ("r2", 1.0), ("r2", 2.0))]
    assert backtest.list_models(registry, "m", rows) == [
        TrainedModel("2", dt.date(2013, 2, 1), False, 0.7, 3.0),
        TrainedModel("3", dt.date(2013, 3, 1), True, 0.7, None),
    ]


def test_months_are_those_that_begin_in_time_up_to_their_last_published_day() -> None:
    published = {dt.date(2013, 1, 20) + n * DAY: 1 for n in range(50)}
    spans = list(backtest._month_spans(published, dt.date(2013, 2, 1), None))
    assert [str(one) for one in spans] == ["2013-02-01..2013-02-28", "2013-03-01..2013-03-10"]
    assert list(backtest._month_spans(published, dt.date(2013, 2, 2), dt.date(2013, 2, 28))) == []


def frame(*labels: bool) -> pd.DataFrame:
    days = [dt.date(2013, 2, 1) + n * DAY for n in range(len(labels))]
    return pd.DataFrame({"date": days, "late": pd.array(labels, dtype="boolean")})


def test_labels_that_come_after_the_months_end_are_not_known_at_it() -> None:
    """As of March 1st the label of February 28th, a day later, is not known; that of the 27th became so on the 28th."""
    days, rows = Days(dt.date(2013, 2, 1), dt.date(2013, 2, 28)), frame(*([False] * 26), True, False)
    score = {"1": lambda rows: np.arange(len(rows)) * 1.0}
    assert (told := backtest._score_month(DATASET, rows, days, score, 1)) is not None
    assert told.auc == {"1": pytest.approx(26 / 27)}
    assert told.known_auc == {"1": 1.0}
    assert (later := backtest._score_month(DATASET, rows, days, score, 2)) is not None
    assert later.known_auc == {}, "without the 27th all known labels are the same"


def test_a_month_of_one_label_is_left_out() -> None:
    days = Days(dt.date(2013, 2, 1), dt.date(2013, 2, 3))
    assert backtest._score_month(DATASET, frame(True, True, True), days, {}, 1) is None


@pytest.fixture
def study() -> Study:
    return Study("<m>", "flights", 42, MODELS, MONTHS, compare_strategies(MODELS, MONTHS, 0.02))


def test_the_page_has_every_number_and_needs_nothing_else(study: Study, tmp_path: Path) -> None:
    page = backtest_page.write(tmp_path, study)
    text = page.read_text()
    assert (tmp_path / "backtest.png").read_bytes().startswith(b"\x89PNG")
    for one in study.months:
        for auc in one.auc.values():
            assert f"{auc:.4f}" in text
    assert "<m>" not in text and "&lt;m&gt;" in text
    outside = re.findall(r"""(?:src|href)=["'](?!data:)|https?://|<script|@import|url\(""", text)
    assert outside == []
    assert "more than 0.02 below that of its holdout" in text
    before = page.read_bytes(), (tmp_path / "backtest.png").read_bytes()
    backtest_page.write(tmp_path, study)
    assert (page.read_bytes(), (tmp_path / "backtest.png").read_bytes()) == before


def test_the_terminal_has_a_line_for_each(study: Study) -> None:
    assert backtest_page.lines(study) == [
        "<m>, 2013-02 to 2013-05: 4 month(s), 4,000 rows.",
        "retrain monthly  mean AUC 0.7050, 4 trainings, 2.00 USD",
        "never retrain    mean AUC 0.6400, 1 training, 0.5000 USD",
        "on drift         mean AUC 0.6875, 2 trainings, 1.00 USD",
    ]


def test_nothing_of_a_short_studys_picture_is_cut_off(study: Study, tmp_path: Path) -> None:
    from matplotlib import image

    backtest_page.draw(tmp_path / "short.png", study)
    pixels = image.imread(tmp_path / "short.png")
    edges = (pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1])
    assert all((edge[..., :3] == 1.0).all() for edge in edges), "the frame is white"
