"""Policies of the gate, for tests of the steps after it."""

from typing import Any

EASY_POLICY: dict[str, Any] = {
    "min_rows": 100,
    "draws": 200,
    "bounds": {"auc": {"at_least": 0.2, "at_most": 1.0}},
    "baseline": [],
    "champion": [{"metric": "auc", "margin": 0.9}],
    **dict.fromkeys(("slices", "stability", "max_solo_auc", "serving")),
}
"""Any model passes this policy."""
HARD_POLICY: dict[str, Any] = {**EASY_POLICY, "bounds": {"auc": {"at_least": 0.99}}}
"""No model passes this policy."""
