"""Test the report of a verdict: correct curves, a page that escapes the text of the data, reproducible bytes."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_curve

from pipelines.evaluation.gates import Policy
from pipelines.evaluation.gates.holdout import Holdout
from pipelines.evaluation.gates.judge import JudgedData, judge
from pipelines.evaluation.report.curves import GRID, compute_confusion, compute_curves
from pipelines.evaluation.report.report import write_report
from tests.tools.verdicts import build_verdict

ROWS = 3_000
POLICY = Policy(draws=100, slices={"columns": ["origin"], "min_rows": 500}, group_by="date")
SCRIPT = "<script>alert(1)</script>"


def build_holdout() -> Holdout:
    random = np.random.default_rng(2)
    signal = random.normal(size=ROWS)
    chance = 1 / (1 + np.exp(1 - signal))
    label = (random.random(ROWS) < chance).astype(float)
    days = pd.Timestamp("2013-03-01") + pd.to_timedelta(np.arange(ROWS) % 28, unit="D")
    frame = pd.DataFrame({"date": days, "origin": random.choice(["EWR", SCRIPT], ROWS)})
    return Holdout(label, chance, chance**2, frame, base_rate=0.3, last_week_rate=0.3)


def write_test_report(folder: Path, **verdict: Any) -> Path:
    """Write the report of a judged holdout; `verdict` replaces fields of the verdict."""
    rows = build_holdout()
    judgement = judge(JudgedData(rows), POLICY)
    fields = {
        "model_name": "flights",
        "version": "2",
        "reason": "fine",
        "next_steps": ["Set holdout_days to 60."],
        "facts": {"as of": "2013-04-01"},
        "hyperparameters": {"eta": "0.05", SCRIPT: SCRIPT},
        "differences": {"eta": ["0.1", SCRIPT]},
        "champion": "1",
        "checks": judgement.checks,
    }
    content, links = build_verdict(**fields | verdict), {"Drift": "http://127.0.0.1:8090/drift/flights/index.html"}
    return write_report(folder, content, rows, judgement, POLICY, {"distance": 0.7, SCRIPT: 0.3}, links)


def test_the_roc_equals_that_of_scikit_learn_within_its_bins() -> None:
    rows = build_holdout()
    false, true, _ = roc_curve(rows.label, rows.candidate_score)
    roc = compute_curves(rows.label, rows.candidate_score).roc
    assert np.abs(roc.value - np.interp(GRID, false, true)).max() < 0.01
    # A perfect model finds every true row before the first false positive.
    assert np.abs(compute_curves(rows.label, rows.label).roc.value[1:] - 1).max() == 0


@pytest.mark.parametrize("by_day", [True, False])
def test_bands_hold_the_curve_and_are_wider_with_fewer_rows(by_day: bool) -> None:
    rows = build_holdout()
    days = rows.features["date"].astype(str).to_numpy()
    many = compute_curves(rows.label, rows.candidate_score, days if by_day else None)
    few = compute_curves(rows.label[:600], rows.candidate_score[:600], days[:600] if by_day else None)
    for band in (many.roc, many.precision):
        assert (band.low <= band.value + 0.02).all()
        assert (band.value <= band.high + 0.02).all()
    assert (few.roc.high - few.roc.low).mean() > 1.5 * (many.roc.high - many.roc.low).mean()


def test_confusion_counts_every_row_once() -> None:
    confusion = compute_confusion(np.array([1, 1, 0, 0, 0.0]), np.array([0.9, 0.2, 0.9, 0.5, 0.1]), 0.5)
    assert confusion == {"tp": 1, "fn": 1, "fp": 2, "tn": 1}


def test_the_page_needs_no_other_file_and_runs_no_script(tmp_path: Path) -> None:
    page = write_test_report(tmp_path / "report", reason=SCRIPT)
    text = page.read_text()
    names = {path.name for path in page.parent.iterdir()}
    assert names == {"report.html", "curves.png", "reliability.png", "holdout_parts.png"}
    assert text.count("data:image/png;base64,") == 3
    assert "<script" not in text
    assert "&lt;script&gt;" in text
    assert re.findall(r'https?://[^"]*', text) == ["http://127.0.0.1:8090/drift/flights/index.html"], "only the link"
    assert 'href="http://127.0.0.1:8090/drift/flights/index.html">Drift</a>' in text
    assert "Hyperparameters (2)" in text and "<dt>eta</dt><dd>0.05</dd>" in text
    assert "Differences from the champion, version 1 (1)" in text
    assert all(
        check.name in text for check in judge(JudgedData(build_holdout()), POLICY).checks if "'" not in check.name
    )


def test_equal_verdicts_give_equal_bytes_and_old_files_are_removed(tmp_path: Path) -> None:
    contents = {path.name: path.read_bytes() for path in write_test_report(tmp_path / "a").parent.iterdir()}
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "old.png").write_bytes(b"")
    assert {path.name: path.read_bytes() for path in write_test_report(tmp_path / "b").parent.iterdir()} == contents
    assert write_test_report(tmp_path / "c", reason="else").read_bytes() != contents["report.html"]
