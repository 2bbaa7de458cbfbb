"""Test how strategies of retraining are compared where the task is not binary: metric, losses, and intervals."""

import datetime as dt
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pipelines.backtest import report as backtest_report
from pipelines.backtest import study as backtest
from pipelines.backtest.primary import PRIMARY_METRICS, compare_values
from pipelines.backtest.study import NEVER_STRATEGY, BackfilledModel, Backtest, Month, build_strategies
from pipelines.dataset import Dataset
from pipelines.loop import report as loop_report
from pipelines.loop import study as loop
from pipelines.window import DAY, Days

DELAYS = Dataset(name="delays", key=("id",), label="delay", task="regression", features={"x": "number"})
ORDERS = Dataset(name="orders", key=("id",), label="kind", task="multiclass", features={"x": "number"})
MAE, ACCURACY, AUC = (PRIMARY_METRICS[task] for task in ("regression", "multiclass", "binary"))
FEBRUARY = Days(dt.date(2013, 2, 1), dt.date(2013, 2, 28))


def read_text(page: Path) -> str:
    """Return the text of a page without its pictures."""
    return re.sub(r"\s+", " ", re.sub(r'src="[^"]*"', "", page.read_text()))


def build_rows(label: str, values: list[object]) -> pd.DataFrame:
    days = [dt.date(2013, 2, 25) + DAY * number for number in range(len(values))]
    return pd.DataFrame({"date": days, label: values})


def test_a_month_of_a_regression_has_the_mean_absolute_error_of_each_model() -> None:
    rows = build_rows("delay", [1.0, 2.0, 3.0, 10.0])
    quantiles = pd.DataFrame({"0.1": [0.0] * 4, "0.5": [1.0] * 4, "0.9": [2.0] * 4})
    month = backtest._score_month(DELAYS, rows, FEBRUARY, {"1": lambda _: np.full(4, 2.0), "2": lambda _: quantiles}, 1)
    assert month and month.values == {"1": pytest.approx(2.5), "2": pytest.approx(3.0)}
    # Labels come a day later: on March 1, that of February 28 is not known.
    assert month.known_values == {"1": pytest.approx(2 / 3), "2": pytest.approx(1.0)}


def test_a_month_of_several_classes_has_the_share_of_right_classes() -> None:
    rows = build_rows("kind", ["a", "b", "b", "a"])
    scores = pd.DataFrame({"a": [0.9, 0.2, 0.8, 0.7], "b": [0.1, 0.8, 0.2, 0.3]})
    month = backtest._score_month(ORDERS, rows, FEBRUARY, {"1": lambda _: scores}, 1)
    assert month and month.values == {"1": 0.75}
    assert month.known_values == {"1": pytest.approx(2 / 3)}
    one_class = backtest._score_month(ORDERS, build_rows("kind", ["a"] * 4), FEBRUARY, {"1": lambda _: scores}, 1)
    assert one_class and one_class.values == {"1": 0.75}, "unlike an AUC, it needs no second class"


@pytest.mark.parametrize(
    ("metric", "before", "value", "loss"),
    [(MAE, 10.0, 12.0, 0.2), (MAE, 10.0, 9.0, -0.1), (ACCURACY, 0.7, 0.6, 0.1), (AUC, 0.7, 0.75, -0.05)],
)
def test_a_loss_has_the_direction_of_the_metric(metric, before: float, value: float, loss: float) -> None:
    assert metric.compute_drop(value, before) == pytest.approx(loss)


def test_the_best_and_the_worst_are_by_the_direction() -> None:
    assert (MAE.find_best([3.0, 2.0, 4.0]), MAE.find_worst_index([3.0, 2.0, 4.0])) == (2.0, 2)
    assert (ACCURACY.find_best([0.3, 0.2, 0.4]), ACCURACY.find_worst_index([0.3, 0.2, 0.4])) == (0.4, 1)


def test_a_smaller_error_is_a_gain_and_chance_is_none() -> None:
    random = np.random.default_rng(1)
    errors = 10 + random.normal(0.0, 1.0, 12)
    better = errors - 1 + random.normal(0.0, 0.3, 12)
    gain = compare_values(MAE, list(better), list(errors))
    assert gain and gain.direction == "better" and gain.low < gain.mean < gain.high
    assert gain.mean == pytest.approx((errors - better).mean())
    worse = compare_values(MAE, list(errors), list(better))
    assert worse and worse.direction == "worse"
    noise = compare_values(MAE, list(errors), list(errors + random.normal(0.0, 1.0, 12)))
    assert noise and noise.direction == "no clear difference"
    assert compare_values(MAE, [1.0], [2.0]) is None


def build_backtest() -> Backtest:
    """Build a backtest whose first model becomes worse by a fifth in March; April then has a new one."""
    models = [BackfilledModel(str(month), dt.date(2013, month, 1), True, 10.0, 0.5) for month in (2, 3, 4, 5)]
    errors = {2: {"2": 10.2}, 3: {"2": 12.0, "3": 10.1}, 4: {"2": 13.0, "3": 10.4, "4": 10.0}}
    errors[5] = {"2": 13.5, "3": 10.5, "4": 10.3, "5": 9.9}
    months = [
        Month(Days(dt.date(2013, month, 1), dt.date(2013, month, 28)), 900, values, values)
        for month, values in errors.items()
    ]
    return Backtest("delays", "delays", 7, models, months, build_strategies(models, months, 0.1, MAE), MAE)


def test_drift_of_an_error_is_its_growth(tmp_path: Path) -> None:
    study = build_backtest()
    served = {strategy.name: [model.version for model in strategy.serving_models] for strategy in study.strategies}
    assert served["on drift"] == ["2", "2", "4", "4"]
    tolerant = build_strategies(study.models, study.months, 0.5, MAE)
    assert [model.version for model in tolerant[2].serving_models] == ["2", "2", "2", "2"], "the negative control"
    text = read_text(backtest_report.write_report(tmp_path, study))
    assert "mean MAE" in text and "more than 10% worse" in text and "AUC" not in text
    gain = compare_values(MAE, [10.2, 10.1, 10.0, 9.9], [10.2, 12.0, 13.0, 13.5])
    assert gain and f"{gain.mean:+.4f} <small>{gain.low:+.4f} to {gain.high:+.4f}</small>" in text
    assert "<b>9.9000</b>" in text and "<b>13.5000</b>" not in text, "the smallest error is the best"
    assert backtest_report.summarize_backtest(study)[2].startswith("never retrain    mean MAE 12.1750")


def test_the_study_of_the_loop_scores_each_row_by_the_model_that_served(tmp_path: Path) -> None:
    def build_strategy(name: str, *served: tuple[str, int]) -> loop.Strategy:
        versions = [loop.ServedVersion(version, dt.date(2013, 2, day)) for version, day in served]
        return loop.Strategy(name, "", versions, ["r"], None)

    strategies = [
        build_strategy(NEVER_STRATEGY, ("1", 25)),
        build_strategy(loop.MONTHLY_STRATEGY, ("1", 25), ("2", 27)),
        build_strategy(loop.DRIFT_STRATEGY, ("2", 25)),
    ]
    scorers = {"1": lambda _: np.zeros(4), "2": lambda _: np.full(4, 2.0)}
    rows = build_rows("delay", [1.0, 2.0, 3.0, 10.0])
    week = loop.score_week(FEBRUARY, rows, "delay", strategies, scorers, MAE)
    assert week and week.values == pytest.approx(
        {NEVER_STRATEGY: 4.0, loop.MONTHLY_STRATEGY: 3.0, loop.DRIFT_STRATEGY: 2.5}
    )
    weeks = [loop.Week(Days(FEBRUARY.first + 7 * DAY * n, FEBRUARY.first + DAY * (7 * n + 6)), 4, week.values)
             for n in range(4)]  # fmt: skip
    study = loop.Study("delays", "delays", 7, weeks, strategies, [], MAE)
    lines = loop_report.summarize_study(study)
    assert lines[0].startswith("never retrain    mean MAE 4.0000")
    assert lines[3] == "on drift against never retrain: better (+1.5000 MAE a week on average, +1.5000 to +1.5000)"
    assert "AUC" not in read_text(loop_report.write_report(tmp_path, study))
