"""The report of a verdict: right curves, a whole page that escapes what came with the data, the same bytes twice."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_curve

from pipelines.evaluation.gates import Policy
from pipelines.evaluation.gates.holdout import Holdout
from pipelines.evaluation.gates.judging import Evidence, judge
from pipelines.evaluation.report.curves import GRID, compute_confusion, compute_curves
from pipelines.evaluation.report.report import write_report

ROWS = 3_000
POLICY = Policy(draws=100, slices={"columns": ["origin"], "min_rows": 500}, draw_by="date")
EVIL = "<script>alert(1)</script>"


def holdout() -> Holdout:
    random = np.random.default_rng(2)
    signal = random.normal(size=ROWS)
    chance = 1 / (1 + np.exp(1 - signal))
    label = (random.random(ROWS) < chance).astype(float)
    days = pd.Timestamp("2013-03-01") + pd.to_timedelta(np.arange(ROWS) % 28, unit="D")
    frame = pd.DataFrame({"date": days, "origin": random.choice(["EWR", EVIL], ROWS)})
    return Holdout(label, chance, chance**2, frame, base_rate=0.3, last_week_rate=0.3)


def made(folder: Path, **verdict: Any) -> Path:
    rows = holdout()
    judged = judge(Evidence(rows), POLICY)
    told = {
        "model_name": "flights",
        "version": "2",
        "outcome": "passed",
        "reason": "fine",
        "facts": {"as of": "2013-04-01"},
        **verdict,
    }
    told["checks"] = [one.model_dump() for one in judged.checks]
    return write_report(folder, told, rows, judged, POLICY, {"distance": 0.7, EVIL: 0.3})


def test_the_roc_equals_sklearns_within_its_bins() -> None:
    rows = holdout()
    false, true, _ = roc_curve(rows.label, rows.candidate_score)
    told = compute_curves(rows.label, rows.candidate_score).roc
    assert np.abs(told.value - np.interp(GRID, false, true)).max() < 0.01
    assert (
        np.abs(compute_curves(rows.label, rows.label).roc.value[1:] - 1).max() == 0
    )  # perfect; else it is not measured at all


@pytest.mark.parametrize("grouped", [True, False])
def test_bands_hold_the_curve_and_are_wider_with_fewer_rows(grouped: bool) -> None:
    rows = holdout()
    days = rows.features["date"].astype(str).to_numpy()
    many = compute_curves(rows.label, rows.candidate_score, days if grouped else None)
    few = compute_curves(rows.label[:600], rows.candidate_score[:600], days[:600] if grouped else None)
    for band in (many.roc, many.precision):
        assert (band.low <= band.value + 0.02).all()
        assert (band.value <= band.high + 0.02).all()
    assert (few.roc.high - few.roc.low).mean() > 1.5 * (many.roc.high - many.roc.low).mean()


def test_confusion_counts_every_row_once() -> None:
    told = compute_confusion(np.array([1, 1, 0, 0, 0.0]), np.array([0.9, 0.2, 0.9, 0.5, 0.1]), 0.5)
    assert told == {"tp": 1, "fn": 1, "fp": 2, "tn": 1}


def test_the_page_needs_no_other_file_and_runs_no_script(tmp_path: Path) -> None:
    page = made(tmp_path / "report", reason=EVIL)
    text = page.read_text()
    assert {one.name for one in page.parent.iterdir()} == {"report.html", "curves.png", "reliability.png", "parts.png"}
    assert text.count("data:image/png;base64,") == 3
    assert "<script" not in text
    assert "&lt;script&gt;" in text
    assert "http" not in text.replace("http-equiv", "")
    assert all(one.check in text for one in judge(Evidence(holdout()), POLICY).checks if "'" not in one.check)


def test_equal_verdicts_give_equal_bytes_and_old_files_are_removed(tmp_path: Path) -> None:
    first = {one.name: one.read_bytes() for one in made(tmp_path / "a").parent.iterdir()}
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "old.png").write_bytes(b"")
    assert {one.name: one.read_bytes() for one in made(tmp_path / "b").parent.iterdir()} == first
    assert made(tmp_path / "c", reason="else").read_bytes() != first["report.html"]
