"""Provide results of steps as XCom returns them."""

from __future__ import annotations

from typing import Any

import pytest

CHECKS = [
    {"name": "auc", "outcome": "failed", "reason": "auc is 0.61, but must be at least 0.65 with confidence"},
    {"name": "brier", "outcome": "passed", "reason": "brier is 0.16"},
    {"name": "week", "outcome": "undecided", "reason": "2013-03-04: too few rows"},
]
RESULTS: dict[str, dict[str, Any]] = {
    "drift": {
        "model_name": "flights", "version": "2", "partition": "2013-04-07", "as_of": "2013-04-08", "rows": 6_123,
        "outcome": "drift", "retrain": True, "reasons": ["wind_speed: psi 0.41 over 0.2", "label rate: 0.31 over 0.22"],
        "drifted_columns": ["wind_speed", "visib"], "page": "https://docs.example.com/drift/flights/2013-04-07/drift.html",
    },
    "gate": {
        "model_name": "flights", "version": "3", "outcome": "failed", "passed": False, "needs_approval": False,
        "days_needed": None, "next_steps": [],
        "checks": CHECKS, "reason": "auc", "champion": "2", "report": "https://docs.example.com/models/flights/3/report.html",
    },
    "guard": {
        "model_name": "flights", "as_of": "2013-04-08", "trigger": "drift", "outcome": "held_back", "alert": False,
        "guard": "cooldown", "reason": "the last training was as of 2013-04-05; wait", "until": "2013-04-12",
    },
    "promote": {
        "model_name": "flights", "version": "3", "previous": "2", "changed": True, "promoted": True,
        "reason": "it passed; it replaces version 2",
    },
    "skew": {
        "model_name": "flights", "versions": ["2", "3"], "partition": "2013-04-07", "endpoint": "flights",
        "rows": 1_234, "outcome": "skew", "fail": False,
        "reason": "more than 1.00% of the rows differ in departures_hour (2.40%)",
    },
    "showback": {
        "month": "2026-11", "month_usd": 1234.5, "unallocated_usd": 0.0, "budgets": [],
        "notices": [
            {"kind": "threshold", "project": "flights", "text": "flights has spent 85.00 USD, 85 % of its 100.00 USD"},
            {"kind": "anomaly", "project": "", "text": "unallocated cost 50.00 USD on 2026-11-02"},
        ],
    },
    "rollback": {
        "model_name": "flights", "version": "2", "previous": "3", "changed": True,
        "reason": "version 3 was rolled back: late flights are missed at EWR",
    },
}  # fmt: skip


@pytest.fixture
def make_result() -> Any:
    """Return the function that builds a step's result, with some values replaced."""
    return lambda step, **values: {**RESULTS[step], **values}
