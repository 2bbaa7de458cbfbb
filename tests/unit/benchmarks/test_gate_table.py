"""Test that the table of the simulated gates in gates.md is what the results say."""

import json
import re
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs/explanation/gates.md"
RESULTS = {
    name: json.loads((ROOT / f"benchmarks/results/{name}.json").read_text())["facts"]
    for name in ("regression", "multiclass")
}
KINDS = {"independent days": "independent", "correlated days": "correlated"}
HEADERS = {"regression": "regression", "multiclass": "classes"}
AGAINST_CHAMPION = "against the champion's: passed"
ROWS = {
    "95 % intervals of the metrics contain the truth": "(?!pinball|coverage).*: 95 % interval contains the truth",
    "the same, pinball losses and coverage": "(pinball|coverage).*: 95 % interval contains the truth",
    "worse by exactly the tolerated loss passes, by R2 or macro AUC": (
        f"candidate worse by .*: (r2|macro_auc) {AGAINST_CHAMPION}"
    ),
    "the same, by other metrics": f"candidate worse by .*: (?!r2|macro_auc)[a-z0-9_/]+ {AGAINST_CHAMPION}",
    "the same, all checks together": "candidate worse by .*: verdicts",
    "as bad as the mean, or the shares, of training passes": "candidate as bad as .* in training: passed",
    "the same, of the last week of training": "candidate as bad as .* in the last week of training: passed",
    "equal models pass, all checks together": "equal models: verdicts",
    "0.05 R2 or 0.01 macro AUC better passes": f"candidate .* above the champion: (r2|macro_auc) {AGAINST_CHAMPION}",
}
"""Name of a row of the table, to a pattern of the facts in it. A cell has the least and the largest share."""


def format_table(results: Mapping[str, Mapping[str, str]]) -> str:
    """Format the table: a row for each of `ROWS`, a column for each task and kind of weather."""
    columns = [(task, kind) for task in results for kind in KINDS]
    names = [f"{HEADERS[task]}, {KINDS[kind]}" for task, kind in columns]
    lines = [f"| | {' | '.join(names)} |", "|---" * (len(columns) + 1) + "|"]
    for name, pattern in ROWS.items():
        cells = [format_cell(results[task], f"{kind}, \\d+ days: {pattern}") for task, kind in columns]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def format_cell(facts: Mapping[str, str], pattern: str) -> str:
    """Format the least and the largest share of the facts that match; a dash if none does."""
    shares = [read_share(text) for name, text in facts.items() if re.fullmatch(pattern, name)]
    return f"{min(shares):.1f} to {max(shares):.1f} %" if shares else "-"


def read_share(text: str) -> float:
    """Return the share that a fact begins with; of verdicts, the share of passed ones."""
    if re.match(r"\d", text):
        return float(text.partition(" %")[0])
    passed = re.search(r"passed ([\d.]+) %", text)
    return float(passed[1]) if passed else 0.0


def test_the_page_has_the_table_of_the_results() -> None:
    assert format_table(RESULTS) in PAGE.read_text()


def test_every_share_of_the_results_is_in_the_table() -> None:
    for facts in RESULTS.values():
        names = [re.sub(r"^[a-z ]+, \d+ days: ", "", name) for name in facts if re.match(r".*\d+ days: ", name)]
        assert [name for name in names if not any(re.fullmatch(row, name) for row in ROWS.values())] == [
            name for name in names if "above the champion" in name and not re.search(r": (r2|macro_auc) ", name)
        ]


def test_a_changed_result_changes_the_table() -> None:
    name = "correlated days, 14 days: candidate as bad as the label's mean in training: passed"
    changed = {**RESULTS, "regression": {**RESULTS["regression"], name: "77.7 %"}}
    assert "to 77.7 % |" in format_table(changed)
    assert format_table(changed) not in PAGE.read_text()


def test_a_verdict_without_a_pass_is_none() -> None:
    assert read_share("failed 2.0 %, undecided 98.0 %") == 0.0
    assert read_share("failed 2.0 %, passed 6.5 %, undecided 91.5 %") == 6.5
    assert read_share("94.4 % (truth below 2.0 %, above 3.6 %)") == 94.4
