"""Test that the figures in the docs are those in benchmarks/results, and that the command of each result exists."""

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from benchmarks.__main__ import BENCHMARKS

ROOT = Path(__file__).parents[3]
RESULTS = {path.stem: json.loads(path.read_text()) for path in sorted((ROOT / "benchmarks/results").glob("*.json"))}
PAGES = sorted([*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md")])
OVERVIEW = ROOT / "docs/reference/benchmarks.md"
SCRIPTS = ("python tests/tools/moto_conformance.py",)
CALL = re.compile(r"python -m benchmarks((?: [a-z]+\b)*)")


class Figure(NamedTuple):
    """A figure of a page, and where it comes from."""

    page: str
    text: str
    """A part of the page, with the figure in braces."""
    result: str
    path: tuple[str, ...]
    """Keys of the value in the result. Where the value is a text, a last key chooses one of its numbers, from 1."""
    unit: float = 1.0
    """Unit of the figure as a multiple of the result's unit: 60 for minutes where the result has seconds."""


def list_cell_figures(text: str, label: str) -> list[Figure]:
    """Return the figures of a cell of the table in profiles.md: seconds and memory of a row of the result."""
    seconds, memory = text.split(", ")
    page = "docs/reference/profiles.md"
    return [
        Figure(page, f"{{{seconds}}} s, {memory} GiB", "profile", ("seconds", label, "median")),
        Figure(page, f"{seconds} s, {{{memory}}} GiB", "profile", ("facts", label, "2"), 1024),
    ]


def list_round_figures(text: str, server: str) -> list[Figure]:
    """Return the figures of a row of the table in serving.md: three quantities, each in two rounds."""
    quantities = ("p50 ms", "p99 ms", "CPU ms a request")
    return [
        Figure(
            "docs/how-to/serving.md",
            f"{text[: number.start()]}{{{number[0]}}}{text[number.end() :]}",
            "serving",
            ("facts", f"{server}: 100 requests/s for 15 s, round {index % 2 + 1}", quantities[index // 2]),
        )
        for index, number in enumerate(re.finditer(r"[\d.]+", text))
    ]


def list_fine_tuning_figures(row: str, text: str) -> list[Figure]:
    """Return the figures of a row of the table in fine-tune-a-language-model.md."""
    paths = [
        *(("facts", f"{row}: {part}, {kind} MiB") for part in ("activations", "peak") for kind in KINDS),
        *(("seconds", row, "median"), ("facts", f"{row}: seconds at the machine's peak")),
    ]
    return [
        Figure(FINE_TUNING, f"{text[: number.start()]}{{{number[0]}}}{text[number.end() :]}", "language_model", path)
        for number, path in zip(re.finditer(r"[\d.]+", text), paths, strict=True)
    ]


FINE_TUNING, KINDS = "docs/how-to/fine-tune-a-language-model.md", ("measured", "estimated")
GATES, DRIFT = "docs/explanation/gates.md", "docs/explanation/drift.md"
ADR_10, INGESTION = "docs/explanation/adr/0010-features-by-parts-of-days.md", "docs/how-to/ingestion.md"
ADR_12 = "docs/explanation/adr/0012-gates-draw-days.md"
ADR_17 = "docs/explanation/adr/0017-a-day-that-may-be-cut-is-refused.md"
FEW_DAYS = "independent days, 14 days"
CUT_DAYS = "days cut at 90% of their rows refused"
PARTITIONS = "docs/how-to/partitions.md"
READY_FEATURES = "ready features, before the releases"
DRYDOCK, COLD_START = "docs/reference/drydock.md", "cold start, {} process stands by"
HOST_NETWORK_CELLS = {
    2: (("1 Gbit/s", "11.5", "planner ", "12.0"), ("10 Gbit/s", "8.8", "", "9.4"), ("25 Gbit/s", "8.6", "", "9.2")),
    4: (("1 Gbit/s", "9.0", "planner ", "8.3"), ("10 Gbit/s", "5.9", "", "5.2"), ("25 Gbit/s", "5.7", "", "5.0")),
}
"""By number of hosts, in train-on-several-hosts.md: network, expected seconds, a word, and the planner's seconds."""
TUNING_ROWS = {"hyperband": "78.0 | 0.0047 | 0.51687 | 0.49307", "random": "92.8 | 0.0056 | 0.51685 | 0.49407"}


def list_tuning_figures(search: str, row: str) -> list[tuple[str, tuple[str, ...]]]:
    """Return the figures of a row in tune-flights.md: its text with the figure in braces, and the keys of the value."""
    paths = [
        ("seconds", f"{search}: 50 trials", "median"),
        ("facts", f"{search}: USD of the trials' seconds on ml.m5.large, on demand"),
        ("facts", f"{search}: log loss of the winner on the folds"),
        ("facts", f"{search}: log loss on the holdout"),
    ]
    return [(row.replace(value, f"{{{value}}}"), path) for value, path in zip(row.split(" | "), paths, strict=True)]


FIGURES = [
    *(
        Figure("docs/tutorial/tune-flights.md", text, "tuning", path)
        for search, row in TUNING_ROWS.items()
        for text, path in list_tuning_figures(search, row)
    ),
    *(
        Figure("docs/tutorial/tune-flights.md", text, "tuning", ("facts", fact), 0.01)
        for text, fact in (
            ("The random search took {5.05} % longer", "random: overhead over the seconds of its trials"),
            ("For Hyperband, it is {6.36} %", "hyperband: overhead over the seconds of its trials"),
            ("the search took {10.9} % longer than they", "overhead of the search over its bare trials"),
        )
    ),
    *(
        Figure("docs/tutorial/tune-flights.md", text, "tuning", ("facts", f"{search}: log loss {part}"))
        for text, search, part in (
            ("its log loss is {0.51687} instead of 0.51685", "hyperband", "of the winner on the folds"),
            ("its log loss is 0.51687 instead of {0.51685}", "random", "of the winner on the folds"),
            ("is better: {0.49307} instead of 0.49407", "hyperband", "on the holdout"),
            ("is better: 0.49307 instead of {0.49407}", "random", "on the holdout"),
        )
    ),
    Figure("docs/tutorial/tune-flights.md", "Hyperband ({6} trials", "tuning", ("facts", "hyperband: pruned trials")),
    Figure("docs/tutorial/tune-flights.md", "without a search | {83.7} |", "tuning",
           ("seconds", "random: the same trials as bare processes", "median")),
    Figure("docs/tutorial/tune-flights.md", "Optuna in one process | {45.4} |", "tuning",
           ("seconds", "random: the same trials by Optuna in one process", "median")),
    *list_fine_tuning_figures("full, activations kept", "133.6 | 133.1 | 255.1 | 254.6 | 0.43 | 0.22"),
    *list_fine_tuning_figures("full, gradient checkpointing", "9.0 | 9.0 | 131.3 | 130.5 | 0.54 | 0.29"),
    *list_fine_tuning_figures("LoRA, activations kept", "121.2 | 120.7 | 198.8 | 198.3 | 0.45 | 0.16"),
    *list_fine_tuning_figures("LoRA, gradient checkpointing", "7.0 | 6.0 | 85.3 | 83.6 | 0.63 | 0.23"),
    *(
        Figure(FINE_TUNING, text, "language_model", ("facts", f"{method}, activations kept: utilization"), 0.01)
        for method, text in (("full", "{51} % of that peak"), ("LoRA", "LoRA {35} %"))
    ),
    Figure(DRYDOCK, "both: {0.4} s", "cold_start", ("seconds", COLD_START.format("a"), "median")),
    Figure(DRYDOCK, "0.4 s and {1.9} s", "cold_start", ("seconds", COLD_START.format("no"), "median")),
    Figure(PARTITIONS, "took {83} CPU seconds", "partitions", ("facts", "365 days of 24 rows, now: CPU seconds")),
    Figure(PARTITIONS, "and {128} before", "partitions", ("facts", "365 days of 24 rows, before: CPU seconds")),
    Figure("README.md", "took {7} minutes on two cores", "demo", ("seconds", "make demo, empty home", "median"), 60),
    Figure("README.md", "A second run took {24} seconds", "demo", ("seconds", "make demo, second run", "median")),
    Figure(GATES, "take {4.6} s for AUC", "gates", ("seconds", "1,000,000 rows, auc, Leeway, 5,000 draws", "median")),
    Figure(GATES, "{3.4} s for log loss", "gates",
           ("seconds", "1,000,000 rows, log_loss, Leeway, 5,000 draws", "median")),
    Figure(GATES, "they take {0.8} s", "gates", ("seconds", "10,000 rows, auc, Leeway, 5,000 draws", "median")),
    Figure(GATES, "0.8 s and {0.5} s", "gates", ("seconds", "10,000 rows, log_loss, Leeway, 5,000 draws", "median")),
    Figure(GATES, "takes {18} s and 1.7 s", "gates", ("seconds", "10,000 rows, auc, scipy, 5,000 draws", "median")),
    Figure(GATES, "18 s and {1.7} s", "gates", ("seconds", "10,000 rows, log_loss, scipy, 5,000 draws", "median")),
    Figure(GATES, "At 28 correlated days, {12.0} % of the intervals", "regression",
           ("facts", "correlated days, 28 days: coverage/0.1-0.9: 95 % interval contains the truth", "2")),
    Figure(GATES, "passes in {37}, 57, 89 %", "regression",
           ("facts", f"{FEW_DAYS}: candidate 0.05 R2 above the champion: r2 against the champion's: passed")),
    *(
        Figure(DRIFT, text, "unlabelled", ("facts", f"{measure}: p-values up to 0.05"))
        for text, measure in (
            ("`estimated_mae` {4.3} %", "estimated_mae"),
            ("`estimated_rmse` {4.0} %", "estimated_rmse"),
            ("`estimated_accuracy` {2.7} %", "estimated_accuracy"),
            ("`estimated_macro_auc` {4.0} %", "estimated_macro_auc"),
            ("of a class {2.0} to 7.7 %", "estimated_recall of class c"),
            ("of a class 2.0 to {7.7} %", "estimated_recall of class b"),
            ("from labels {3.7} to 8.7 %", "recall of class c"),
            ("from labels 3.7 to {8.7} %", "recall of class b"),
        )
    ),
    *(
        Figure(ADR_12, text, "correlated_days", ("facts", fact, "1"))
        for text, fact in (
            ("passes in {4.9} to 5.2 %", "28 days, correlated by 0.0, 4 coefficients"),
            ("passes in 4.9 to {5.2} %", "14 days, correlated by 0.0, 2 coefficients"),
            ("it passes in {6.9} % at 10 days", "10 days, correlated by 0.5, 2 coefficients"),
            ("{6.2} % at 14 and 28", "28 days, correlated by 0.5, 4 coefficients"),
            ("and {5.8} % at 60", "60 days, correlated by 0.5, 6 coefficients"),
            ("in {10.3} % at 10", "10 days, correlated by 0.7, 2 coefficients"),
            ("and {8.9} % at 28", "28 days, correlated by 0.7, 4 coefficients"),
            ("6.2 to {5.8} %", "28 days, correlated by 0.5, 3 coefficients"),
        )
    ),
    Figure(GATES, "{58} and 9 minutes", "gates",
           ("facts", "1,000,000 rows, auc, scipy, 20 draws: scaled to 5,000"), 60),
    Figure(GATES, "58 and {9} minutes", "gates",
           ("facts", "1,000,000 rows, log_loss, scipy, 20 draws: scaled to 5,000"), 60),
    *(
        Figure(GATES, text, "coverage", ("facts", fact))
        for text, fact in (
            ("the truth in {93.4} to 96.1 %", "correlated days, 28 days: auc: 95 % interval contains the truth"),
            ("the truth in 93.4 to {96.1} %", "independent days, 14 days: auc: 95 % interval contains the truth"),
            ("error in {96.4} to 98.6 %", "correlated days, 14 days: ece: 95 % interval contains the truth"),
            ("error in 96.4 to {98.6} %", "independent days, 28 days: ece: 95 % interval contains the truth"),
            ("promotes one in {38} % at 28 independent days",
             "independent days, 28 days: equal models: verdict of the shipped policy is passed"),
            ("independent days, {25} % where days are correlated",
             "correlated days, 28 days: equal models: verdict of the shipped policy is passed"),
        )
    ),
    *(
        Figure(DRIFT, f"| {days} | {{{alarms}}} | {windows} |", "drift", ("facts", f"false alarms a year, {label}"))
        if is_alarm
        else Figure(DRIFT, f"| {days} | {alarms} | {{{windows}}} |", "drift",
                    ("facts", f"windows with a significant finding a year, {label}"))
        for days, alarms, windows, label in (
            ("days differ by 0.1 standard deviations of the column", "0", "0.4", "days independent"),
            ("the same, and consecutive days are correlated by 0.5", "0", "1.7",
             "days correlated by 0.5 with the day before"),
            ("the same, rows treated as independent, as is usual", "0", "318", "rows treated as independent"),
            ("days differ by 0.5", "0", "0.3", "daily shifts five times as large"),
            ("the same, rows treated as independent", "28", "359",
             "daily shifts five times as large, rows treated as independent"),
        )
        for is_alarm in (True, False)
    ),
    *(
        Figure(DRIFT, f"| {{{days}}} ({low} to {high}) |", "drift", ("facts", f"days to detection, {label}"))
        for days, low, high, label in (
            ("6", "5", "7", "sudden"), ("23", "17", "27", "gradual"), ("3", "3", "3", "stuck sensor"))
    ),
    *list_cell_figures("1.55, 0.36", "profile, 1,000,000 rows"),
    *list_cell_figures("2.48, 0.40", "profile, 5,000,000 rows"),
    *list_cell_figures("10.9, 0.44", "profile, 50,000,000 rows"),
    *list_cell_figures("0.51, 0.30", "plain DuckDB query (peer), 1,000,000 rows"),
    *list_cell_figures("1.50, 0.34", "plain DuckDB query (peer), 5,000,000 rows"),
    *list_cell_figures("8.9, 0.38", "plain DuckDB query (peer), 50,000,000 rows"),
    *list_cell_figures("145, 2.3", "Evidently 0.7.23 (peer), two files of 1,000,000 rows"),
    *list_cell_figures("27, 1.4", "NannyML 0.13.1 (peer), two files of 1,000,000 rows"),
    *list_cell_figures("68, 1.1", "whylogs 1.6.4 (peer), two files of 1,000,000 rows"),
    *(
        Figure("docs/explanation/versioned-preprocessing.md", "gate ran {4} times each", "repro",
               ("facts", "stage runs", stage))
        for stage in ("preprocess", "train", "evaluate", "gate")
    ),
    Figure(ADR_17, "at 90 % it refuses {78} of flights", "completeness", ("facts", f"flights: {CUT_DAYS}", "1")),
    Figure(ADR_17, "78 of flights and {90} of weather", "completeness", ("facts", f"weather: {CUT_DAYS}", "1")),
    Figure(ADR_17, "Of {91} days that were cut", "completeness", ("facts", f"weather: {CUT_DAYS}", "2")),
    *(
        Figure("docs/how-to/training-script.md", text, "interruptions", path)
        for text, path in (
            ("trains {100} times in Airflow", ("facts", "runs")),
            ("interrupted the jobs {287} times", ("facts", "interruptions")),
            ("All {100} trainings completed", ("facts", "finished")),
            ("lost at most {2.2} s of work", ("facts", "max_lost_s")),
            ("and {0.5} s in the median", ("seconds", "work lost by an interruption", "median")),
            ("A training of {10} s", ("seconds", "the training script without Airflow", "median")),
            ("took {21} s as a task", ("seconds", "a DAG run of the operator, not interrupted", "median")),
            ("and {46} s with up to five", ("seconds", "a DAG run, interrupted at most 5 times", "median")),
        )
    ),
    *(
        Figure("docs/how-to/serving.md", text, "serving", ("facts", *path))
        for text, *path in (
            ("25 ms was {450} requests a second for `serve`", "leeway: highest rate with p99 up to 25 ms"),
            ("for `serve`, {300} with lookups", "leeway with lookups: highest rate with p99 up to 25 ms"),
            ("{700} for the endpoint,", "endpoint: highest rate with p99 up to 25 ms"),
            ("{300} for the endpoint with lookups", "endpoint with lookups: highest rate with p99 up to 25 ms"),
            ("and {100} for MLflow's server", "mlflow: highest rate with p99 up to 25 ms"),
        )
    ),
    *list_round_figures("4.4 and 4.5 ms | 8.3 and 8.2 ms | 4.0 and 4.1 ms", "leeway"),
    *list_round_figures("5.7 and 5.6 ms | 9.7 and 9.0 ms | 4.5 and 4.5 ms", "leeway with lookups"),
    *list_round_figures("3.4 and 3.3 ms | 4.7 and 5.1 ms | 3.1 and 3.0 ms", "endpoint"),
    *list_round_figures("6.6 and 6.5 ms | 9.8 and 10.4 ms | 6.5 and 6.3 ms", "endpoint with lookups"),
    *list_round_figures("6.6 and 7.1 ms | 114.8 and 143.7 ms | 6.4 and 7.0 ms", "mlflow"),
    *(
        Figure("docs/reference/costs.md", text, "planner_real",
               ("facts", f"{way}, corrected: error in the {half} half, %"))
        for text, way, half in (
            ("error was {15.9} % in the first", "with sizes", "first"),
            ("and {10.7} % in the second half with", "with sizes", "second"),
            ("and {10.6} % and 23.9 % without", "without sizes", "first"),
            ("and 10.6 % and {23.9} % without", "without sizes", "second"),
        )
    ),
    *(
        Figure("docs/how-to/page.md", text, "page", ("facts", fact))
        for text, fact in (
            ("answered within {8.1} ms", "a dataset: 95th percentile, ms"),
            ("DAGs within {18.0} ms", "Airflow: list of DAGs: 95th percentile, ms"),
            ("plugin adds {1.2} ms", "import of the plugin after Airflow's: median, ms"),
        )
    ),
    Figure("docs/how-to/serving.md", "{59,979} of 60,000 requests", "release", ("facts", "answers", "score")),
    Figure("docs/how-to/serving.md", "of {60,000} requests", "release", ("facts", "requests")),
    Figure("docs/how-to/serving.md", "and {21} got the error of the broken", "release",
           ("facts", "answers", "ModelError of the broken canary")),
    Figure("docs/how-to/serving.md", "within {17.3} ms before the releases", "release",
           ("facts", "before the releases", "p99_ms")),
    Figure("docs/how-to/serving.md", "and {99.908} % within 100 ms", "release",
           ("facts", "in all", "percent within 100 ms")),
    Figure("docs/how-to/serving.md", "answers came within {25.3} ms, and", "release", ("facts", "in all", "p99_ms")),
    *(
        Figure("docs/how-to/serving.md", text, "release", ("facts", *path))
        for text, *path in (
            ("it was {7.8} ms.", READY_FEATURES, "p99_ms"),
            ("took {7.4} ms of CPU in all", "before the releases", "cpu_ms"),
            ("and {3.0} ms with ready", READY_FEATURES, "cpu_ms"),
        )
    ),
    Figure("docs/how-to/serving.md", "`serve` answered {3.3} s after", "serving",
           ("seconds", "leeway: start until /ping answers", "median")),
    Figure("docs/how-to/serving.md", "server after {6.2} s", "serving",
           ("seconds", "mlflow: start until /ping answers", "median")),
    Figure(ADR_10, "it takes {6.2} s", "preprocess", ("seconds", "preprocess on DuckDB, 10 M rows", "median")),
    Figure(ADR_10, "pandas takes {22.8} s", "preprocess", ("seconds", "pandas, 10 M rows (peer)", "median")),
    Figure(ADR_10, "it takes {1.5} s", "preprocess", ("seconds", "preprocess on DuckDB, 1 M rows", "median")),
    Figure(ADR_10, "pandas {1.9} s", "preprocess", ("seconds", "pandas, 1 M rows (peer)", "median")),
    *(
        Figure(INGESTION, f"| {name} | {few} | {more} | {many} |".replace(value, f"{{{value}}}", 1), "memory",
               ("facts", f"{label}, {rows} rows"))
        for name, label, few, more, many in (
            ("`ingest`", "ingest", "285", "385", "389"),
            ("`ingest` again, one row in eight changed", "ingest again, one row in eight changed", "332", "503", "502"),
            ("`validate`: publish, quarantine", "validate, publish, quarantine", "322", "449", "439"),
            ("`validate` again, one row in eight changed",
             "validate, publish, quarantine again, one row in eight changed", "330", "452", "463"),
            ("`sync`", "sync", "328", "522", "549"),
            ("`sync` again, one row in eight changed", "sync again, one row in eight changed", "332", "546", "554"),
        )
        for value, rows in ((few, "100,000"), (more, "1,000,000"), (many, "10,000,000"))
    ),
    *(
        Figure("docs/how-to/train-on-several-hosts.md", text, "hosts", path)
        for text, path in (
            ("took {17.9} s on one host and 9.1 s", ("seconds", "1 host, 100 rounds", "median")),
            ("on one host and {9.1} s on two", ("seconds", "2 hosts, 100 rounds", "median")),
            ("would take: {17.9}, 8.4 and", ("seconds", "1 host, 100 rounds, CPU of the busiest host", "median")),
            ("would take: 17.9, {8.4} and", ("seconds", "2 hosts, 100 rounds, CPU of the busiest host", "median")),
            ("17.9, 8.4 and {5.2} s", ("seconds", "4 hosts, 100 rounds, CPU of the busiest host", "median")),
            ("With the {7.1} MiB", ("facts", "2 hosts, MiB sent in a round")),
            ("(two hosts) and {16.6} MiB", ("facts", "4 hosts, MiB sent in a round")),
            ("A whole job took {22.1} s", ("seconds", "1 host, whole job", "median")),
            ("on one host and {14.8} s on two: each", ("seconds", "2 hosts, whole job", "median")),
        )
    ),
    *(
        Figure("docs/how-to/train-on-several-hosts.md", text, "hosts",
               ("facts", f"{hosts} hosts, 100 rounds expected on {network}{source}, s"))
        for hosts, cells in HOST_NETWORK_CELLS.items()
        for network, expected, word, planned in cells
        for text, source in (
            (f"{{{expected}}} s ({word}{planned})", ""),
            (f"{expected} s ({word}{{{planned}}})", " by the planner's model"),
        )
    ),
    *(
        Figure("docs/how-to/train-on-several-hosts.md", text, "torch", path)
        for text, path in (
            ("| plain loop of torch | {176,548} |", ("facts", "plain torch loop (peer), 1 host, rows/s")),
            ("| DDP | {152,608} | 235,273 |", ("facts", "DDP, 1 host, rows/s")),
            ("| DDP | 152,608 | {235,273} |", ("facts", "DDP, 2 hosts, rows/s")),
            ("| FSDP | {125,682} | 103,905 |", ("facts", "FSDP, 1 host, rows/s")),
            ("| FSDP | 125,682 | {103,905} |", ("facts", "FSDP, 2 hosts, rows/s")),
            ("checkpoint of {98.7} MiB", ("facts", "MiB of the checkpoint")),
            ("took {0.34} s (DDP on two", ("seconds", "DDP, 2 hosts, save of a checkpoint", "median")),
            ("hosts) to {0.58} s (FSDP on one)", ("seconds", "FSDP, 1 host, save of a checkpoint", "median")),
        )
    ),
    *(
        Figure("docs/how-to/feed-accelerators.md", text, "loader", ("facts", f"{name}, samples/s"), 1_000)
        for text, name in (
            ("| Parquet | this loader, a thread | {1,739} |", "Parquet: loader, a thread"),
            ("| Parquet | this loader, 2 workers | {146} |", "Parquet: loader, 2 workers"),
            ("| Parquet | torch DataLoader over rows in memory | {235} |",
             "Parquet: torch DataLoader, all rows in memory"),
            ("| Parquet | the same, 2 workers | {107} |", "Parquet: the same, 2 workers"),
            ("| Parquet | pyarrow's scanner, which does not shuffle the rows | {1,778} |",
             "Parquet: pyarrow's scanner, rows not mixed"),
            ("| shards | this loader, a thread | {13.5} |", "shards: loader, a thread"),
            ("| shards | this loader, 2 workers | {18.2} |", "shards: loader, 2 workers"),
            ("| shards | torch DataLoader that reads a sample at a time, 2 workers | {11.6} |",
             "shards: torch DataLoader, an entry at a time, 2 workers"),
            ("| shards | WebDataset, 2 workers | {10.8} |", "shards: WebDataset, 2 workers"),
        )
    ),
]  # fmt: skip


def read_value(result: dict[str, Any], path: tuple[str, ...]) -> float:
    """Return the value at a path of keys. In a text, a last key chooses one of its numbers, from 1."""
    value: Any = result
    for key in path:
        if isinstance(value, str):
            return find_numbers(value)[int(key) - 1]
        value = value[int(key)] if isinstance(value, list) else value[key]
    return find_numbers(value)[0] if isinstance(value, str) else float(value)


def find_numbers(text: str) -> list[float]:
    """Return the numbers in a text, in their order."""
    return [float(number.replace(",", "")) for number in re.findall(r"\d[\d,]*(?:\.\d+)?", text)]


def is_rounded(printed: str, value: float) -> bool:
    """Return whether a printed number is the value, rounded to the digits that are printed."""
    number = printed.replace(",", "")
    decimals = len(number.partition(".")[2])
    return abs(float(number) - value) <= 0.5 * 10**-decimals + 1e-9


def find_fault(figure: Figure, text: str, results: dict[str, Any]) -> str:
    """Return what is wrong with a figure; empty where the page has it, and the result has the same value."""
    (printed,) = re.findall(r"\{([\d.,]+)\}", figure.text)
    fragment = re.sub(r"[{}]", "", figure.text)
    if fragment not in " ".join(text.split()):
        return f"{figure.page} does not say {fragment!r}"
    value = read_value(results[figure.result], figure.path) / figure.unit
    return "" if is_rounded(printed, value) else f"{figure.page}: {fragment!r}, but {figure.result}.json has {value}"


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: f"{Path(figure.page).stem}: {figure.text[:40]}")
def test_a_figure_is_the_results(figure: Figure) -> None:
    assert find_fault(figure, (ROOT / figure.page).read_text(), RESULTS) == ""


def test_a_changed_figure_is_found() -> None:
    """The negative control: another figure, another result, another sentence."""
    figure, results = Figure("a.md", "it took {7} s", "a", ("s",)), {"a": {"s": 7.4}}
    assert find_fault(figure, "and it\ntook 7 s.", results) == ""
    assert "does not say" in find_fault(figure, "it took 8 s", results)
    assert "a.json has 7.6" in find_fault(figure, "it took 7 s", {"a": {"s": 7.6}})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_names_benchmarks_and_results_that_exist(page: Path) -> None:
    text = page.read_text()
    names = {name for words in CALL.findall(text) for name in words.split()}
    files = set(re.findall(r"benchmarks/results/([a-z]\w*)\.json", text))
    assert sorted(names - set(BENCHMARKS)) == []
    assert sorted(files - set(RESULTS)) == []


@pytest.mark.parametrize("name", RESULTS)
def test_a_result_says_which_command_wrote_it_and_the_overview_has_it(name: str) -> None:
    command, date = RESULTS[name]["command"], RESULTS[name]["date"][:10]
    assert command in SCRIPTS or re.sub(r"^(LEEWAY_BENCH_\w+=\S+ )*", "", command) == f"python -m benchmarks {name}"
    assert name in BENCHMARKS or command in SCRIPTS
    rows = [line for line in OVERVIEW.read_text().splitlines() if line.startswith(f"| `{name}` |")]
    assert rows, f"{OVERVIEW.name} has no row for `{name}`: add its command, date, restriction and pages"
    (row,) = rows
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert (cells[1], cells[2]) == (f"`{command}`", date)


def test_a_result_that_is_not_of_one_run_is_called_so_wherever_it_is_named() -> None:
    noted_results = [name for name, result in RESULTS.items() if "note" in result.get("facts", {})]
    for page in (page for page in PAGES if page.name != "CHANGELOG.md"):
        for paragraph in re.split(r"\n\s*\n|\n(?=[|*-] )", page.read_text()):
            for name in noted_results:
                if f"{name}.json" in paragraph or paragraph.startswith(f"| `{name}`"):
                    assert "not of one run" in " ".join(paragraph.split()), f"{page}: {paragraph}"


def test_the_overview_lists_what_has_no_result_yet() -> None:
    text = OVERVIEW.read_text().partition("## Not measured yet")[2]
    assert set(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)) == set(BENCHMARKS) - set(RESULTS)


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: f"{figure.result}: {figure.text[:40]}")
def test_the_overview_names_the_page_of_a_figure(figure: Figure) -> None:
    (row,) = [line for line in OVERVIEW.read_text().splitlines() if line.startswith(f"| `{figure.result}` |")]
    assert Path(figure.page).name in row
