"""Test the documents of the page in Airflow on a real lake: their content, and what damage and removal do to them."""

import datetime as dt
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pytest
from sklearn.metrics import roc_auc_score
from typer.testing import CliRunner

from pipelines.cli import app
from pipelines.costs.ledger import SCHEMA, Ledger
from pipelines.errors import DataError, SpecError
from pipelines.lake import Lake
from pipelines.lake.cached import CachedLake
from pipelines.lake.month_table import MonthTable
from pipelines.loop import events as loop_events
from pipelines.monitoring.profiles import table as profiles
from pipelines.registry.lifecycle import Kind
from pipelines.settings import settings
from pipelines.status.documents.costs import CostDocument
from pipelines.status.documents.data import DatasetDetails
from pipelines.status.documents.json_object import Document
from pipelines.status.documents.model import ModelDetails
from pipelines.status.documents.models import ModelList
from pipelines.status.writing import write_documents
from pipelines.validation import results_table as validations
from tests.conftest import set_home
from tests.tools.imports import ROOT
from tests.tools.lake_states import MONDAY, add_event, add_loop_event, write_drift

BINS = 22


D = TypeVar("D", bound=Document)


def read(kind: type[D], name: str) -> D:
    """Read a document."""
    return kind.model_validate_json((settings().home / "status" / name).read_text())


def write() -> dict[str, str]:
    """Write all documents; return the problems as text."""
    return {name: error.message for name, error in write_documents(CachedLake.open()).items()}


def write_labels(counts_by_day: dict[dt.date, Any], version: str) -> None:
    """Write profiles that have only the counts of score bin and label, shape (2, bins)."""
    empty: dict[str, Any] = {field.name: None for field in profiles.SCHEMA}
    key = {"model_name": "flights", "model_version": version, "reference": "r", "kind": "joint", "name": "joint"}
    rows = [
        {**empty, **key, "date": day.replace(day=1), "day": day, "at": 0, "rows": int(counts.sum())}
        | {"counts": counts.ravel().tolist(), "sums": [0.0] * 2 * BINS}
        for day, counts in counts_by_day.items()
    ]

    def replace(version: Any) -> None:
        old_rows = version.read_month(MONDAY.replace(day=1))
        version.replace_month(
            MONDAY.replace(day=1), pa.concat_tables([old_rows, pa.Table.from_pylist(rows, schema=profiles.SCHEMA)])
        )

    MonthTable(profiles.TABLE, profiles.SCHEMA).update(replace)


def write_validation(day: dt.date, run: str, failures: dict[str, str], hour: int = 8) -> None:
    """Write the validation of a day: expectation to the severity with which it failed; another one succeeded."""
    empty: dict[str, Any] = {field.name: None for field in validations.SCHEMA}
    common = {**empty, "date": day, "dataset": "flights", "run": run, "column": "distance", "observed": "3 bad"}
    common["validated_at"] = dt.datetime.combine(day, dt.time(hour), dt.UTC)
    rows = [{**common, "place": 0, "expectation": "expect_good", "severity": "critical", "success": True}]
    rows += [
        {**common, "place": place, "expectation": name, "severity": severity, "success": False}
        for place, (name, severity) in enumerate(failures.items(), start=1)
    ]
    validations.ResultsTable(Lake.open()).add(rows, day)


def add_job(number: int, **fields: Any) -> None:
    """Add a job of this month to the ledger."""
    empty: dict[str, Any] = {field.name: None for field in SCHEMA if field.name != "date"}
    now = dt.datetime.now(dt.UTC)
    job = {"name": f"job-{number}", "arn": f"arn:{number}", "created": now, "ended": now, "status": "Completed"}
    numbers = {"instance_count": 1, "training_s": 60, "billable_s": 30, "cost_usd": 0.5, "on_demand_usd": 1.0}
    texts = {"model": "flights", "project": "p", "dag_id": "dag", "run_id": "run", "price_date": dt.date(2026, 1, 2)}
    more = {"spot": True, "interruptions": 1, "lost_s": 0.0, "capacity_s": 5.0}
    Ledger.open().add([{**empty, **job, **numbers, **texts, **more, **fields}])


def test_documents_of_an_empty_lake(home: Any) -> None:
    assert write() == {}
    models, costs = read(ModelList, "models.json"), read(CostDocument, "costs.json")
    assert (models.models, models.unreadable_models, models.mlflow_url) == ([], {}, "")
    assert (costs.jobs, costs.months, costs.endpoints, costs.advice, costs.price_dates) == ([], [], [], [], "")
    files = [path.relative_to(home / "status") for path in (home / "status").rglob("*.json")]
    assert sorted(map(str, files)) == ["costs.json", "models.json"]
    assert not list((home / "lake").rglob("*_events*")), "a reader creates no table"


def test_model_without_champion_data_and_labels(home: Any) -> None:
    add_event(Kind.JUDGED, "1", why="auc is 0.5", evidence={"verdict": "failed"})
    assert write() == {}
    details = read(ModelDetails, "models/flights.json")
    summary = details.summary
    assert (summary.health, summary.champion, summary.performance, summary.drift) == ("no champion", "", None, None)
    assert (details.champion, details.challenger, details.rollback_version) == (None, None, "")
    assert (details.guards, details.guards_as_of, details.breaker_open) == ([], None, False)
    assert (details.drift_weeks, [event.kind for event in details.events]) == ([], ["judged"])
    dataset = read(DatasetDetails, "data/flights.json")
    assert (dataset.partitions, dataset.newest_partition, dataset.models) == ([], "", ["flights"])


CHECK = {"name": "auc", "value": 0.7, "low": 0.6, "high": 0.8, "outcome": "passed"}


def test_contents_of_a_model_with_history(home: Any, source: Any) -> None:
    lake, random = Lake.open(), np.random.default_rng(13)
    days = [MONDAY + dt.timedelta(number) for number in range(9)]
    lake.write_partition("flights", days[-1], source.read(days[-1]))
    add_loop_event(loop_events.Kind.STARTED, "d/1", as_of=dt.date(2013, 1, 1), trigger="manual")
    add_loop_event(loop_events.Kind.ENDED, "d/1", as_of=dt.date(2013, 1, 1), outcome="passed", version="1")
    add_loop_event(loop_events.Kind.STARTED, "d/2", as_of=days[7], trigger="drift")
    add_loop_event(loop_events.Kind.ENDED, "d/2", as_of=days[7], outcome="passed", version="2")
    add_event(Kind.JUDGED, "1", why="it is better", evidence={"verdict": "passed"})
    add_event(Kind.PROMOTED, "1", champions=("", "1"))
    add_event(Kind.JUDGED, "2", why="it is better", evidence={"verdict": "passed", "checks": [CHECK]})
    add_event(Kind.PROMOTED, "2", champions=("1", "2"))
    counts = {day: random.integers(1, 60, (2, BINS)) for day in days}
    write_labels(counts, "1")
    write_labels({days[0]: counts[days[0]] * 2, days[8]: counts[days[0]][::-1]}, "2")
    write_drift(days[1], "none", {"distance": 0.05, "dep_hour": float("nan")}, "1")
    write_drift(days[8], "drift", {"distance": 0.3})
    assert write() == {}

    details = read(ModelDetails, "models/flights.json")
    summary = details.summary
    assert (summary.champion, summary.champion_as_of, summary.health) == ("2", days[7], "drift")
    assert summary.drift and (summary.drift.day, summary.drift.reasons) == (days[8], "it; moved")
    assert summary.last_training and summary.last_training.outcome == "passed"
    assert details.champion and details.champion.as_of == days[7]
    assert [check.model_dump() for check in details.champion.checks] == [CHECK]
    assert (details.retrain_on, details.training_age and details.training_age.last_as_of) == ("performance", days[7])
    assert details.training_age and details.training_age.due_on == days[8], "the training saw one published day"
    assert details.rollback_version == "1"
    assert [week.effects for week in details.drift_weeks] == [{"distance": 0.5}, {"distance": 3.0}]
    assert details.drift_weeks[1].drifted_columns == ["distance"]
    assert len(details.events) == 8
    assert details.guards_as_of == days[8] + dt.timedelta(1)
    answers = {answer.guard: answer.why for answer in details.guards}
    assert "version" not in answers["same_data"] and answers["cooldown"], "the last training was a day before"

    assert summary.performance and summary.performance.metric == "auc"
    first, second = summary.performance.weeks
    assert (first.week, first.versions, second.week, second.versions) == (MONDAY, ["1"], days[7], ["1", "2"])
    total = np.sum([counts[day] for day in days[:7]], axis=0)
    labels, bins = np.repeat([0, 1], total.sum(axis=1)), np.concatenate([np.repeat(range(BINS), row) for row in total])
    assert first.value == pytest.approx(roc_auc_score(labels, bins))
    assert first.low and first.high and first.low < first.value < first.high
    assert first.rows == total.sum()
    (listed,) = read(ModelList, "models.json").models
    assert listed == summary


ORIGIN = {
    **{"table": "flights", "snapshot_id": "77", "as_of": "2013-01-14", "rows_train": "9000", "rows_holdout": "800"},
    **{"window": "2013-01-01..2013-01-09 | 2013-01-11..2013-01-12", "data_version": "abc", "dvc_lock": "d" * 64},
    **{"git_commit": "c0ffee-dirty", "training_job": "job-1", "dag_run": "flights_train/r1", "model_digest": "e" * 64},
}


def test_lineage_of_the_versions(home: Any) -> None:
    add_event(Kind.REGISTERED, "1")
    add_event(Kind.REGISTERED, "2", evidence={"origin": ORIGIN})
    add_event(Kind.PROMOTED, "2", champions=("", "2"))
    for kind, version, endpoint in (
        (Kind.DEPLOYED, "1", "live"),
        (Kind.DEPLOYED, "1", "live"),
        (Kind.DEPLOYMENT_FAILED, "2", "live"),
        (Kind.DEPLOYED, "2", "live"),
        (Kind.DEPLOYED, "2", "trial"),
        (Kind.UNDEPLOYED, "2", "trial"),
    ):
        add_event(kind, version, evidence={"endpoint": endpoint})
    write_labels({MONDAY: np.full((2, BINS), 2), MONDAY + dt.timedelta(2): np.full((2, BINS), 1)}, "2")
    assert write() == {}
    first, second = read(ModelDetails, "models/flights.json").lineages
    assert (second.version, second.table, second.snapshot_id, second.as_of) == ("2", "flights", "77", "2013-01-14")
    assert (second.training_days, second.holdout_days) == ("2013-01-01 to 2013-01-09", "2013-01-11 to 2013-01-12")
    assert (second.run, second.git_commit, second.rows_train) == ("flights_train/r1", "c0ffee-dirty", "9000")
    assert second.data_url.endswith("/flights/index.html") and second.registered_at
    assert [(service.endpoint, service.until is None) for service in second.services] == [
        ("trial", False),
        ("live", True),
    ]
    scored = second.scored
    assert scored and (scored.table, scored.days, scored.rows) == ("flights_predictions", 2, 6 * BINS)
    assert (scored.first, scored.last) == (MONDAY, MONDAY + dt.timedelta(2))
    (service,) = first.services
    assert service.until and service.until == second.services[-1].since, "a second deployment changed nothing"
    assert (first.version, first.table, first.data_url, first.scored) == ("1", "", "", None), "nothing was recorded"


def test_partitions_of_a_dataset(home: Any, source: Any) -> None:
    lake, days = Lake.open(), [MONDAY + dt.timedelta(number) for number in range(5)]
    for day in days[:4]:
        lake.write_partition("flights", day, source.read(day))
    lake.write_partition("flights_quarantine", days[1], source.read(days[1]).read_all().slice(0, 4))
    add_event(Kind.REGISTERED, "1")
    write_validation(days[0], "a", {"expect_x": "critical"}, hour=7)
    write_validation(days[0], "b", {})
    write_validation(days[1], "c", {"expect_x": "warning"})
    write_validation(days[2], "d", {"expect_x": "warning", "expect_y": "critical"})
    write_validation(days[4], "e", {"expect_y": "critical"})
    assert write() == {}
    dataset = read(DatasetDetails, "data/flights.json")
    states = {partition.day: partition.state for partition in dataset.partitions}
    assert [*states.values()] == ["published", "quarantined", "stale", "not_validated", "refused"]
    second = dataset.partitions[1]
    assert (second.quarantined_rows, second.failures) == (4, ["warning expect_x of distance: 3 bad"])
    assert second.rows == lake.count_rows_by_day("flights")[days[1]] and second.url.endswith("/flights/2013-01-08.html")
    assert dataset.partitions[3].validated_at is None and dataset.partitions[3].url == ""
    failures = {(item.expectation, item.severity): item for item in dataset.failures}
    assert {key: item.partitions for key, item in failures.items()} == {
        ("expect_x", "warning"): 2,
        ("expect_y", "critical"): 2,
    }
    assert failures["expect_y", "critical"].newest_partition == "2013-01-11"


def test_earlier_validations_of_a_partition(home: Any, source: Any) -> None:
    """Those in which the same expectations failed as before say nothing new. The last one is in the state."""
    Lake.open().write_partition("flights", MONDAY, source.read(MONDAY))
    add_event(Kind.REGISTERED, "1")
    failures = {f"expect_{number}": "warning" for number in range(5)}
    for hour, run, severities in [
        *((6, "a", {"expect_x": "critical"}), (7, "b", {"expect_x": "critical"}), (8, "c", failures), (9, "d", {})),
        (10, "e", {"expect_x": "info"}),
    ]:
        write_validation(MONDAY, run, severities, hour)
    write_validation(MONDAY + dt.timedelta(1), "f", {})
    assert write() == {}
    first, second = read(DatasetDetails, "data/flights.json").partitions
    assert first.validated_at == dt.datetime.combine(MONDAY, dt.time(10), dt.UTC)
    assert [(item.at.hour, item.outcome) for item in first.earlier_validations] == [
        *((6, "refused"), (8, "warned"), (9, "passed"))
    ]
    assert [item.failures for item in first.earlier_validations] == [
        ["critical expect_x of distance: 3 bad"],
        [*(f"warning expect_{number} of distance: 3 bad" for number in range(3)), "and 2 more"],
        [],
    ]
    assert second.earlier_validations == [], "the control: it was validated once"


def test_costs(home: Any) -> None:
    add_event(Kind.REGISTERED, "1")
    add_job(1)
    add_job(2, spot=False, cost_usd=1.0, model="other", project="", failure_reason="x" * 900)
    add_job(3, created=dt.datetime.now(dt.UTC) - dt.timedelta(800))
    assert write() == {}
    costs = read(CostDocument, "costs.json")
    assert [job.name for job in costs.jobs] == ["job-2", "job-1", "job-3"]
    assert (costs.jobs[1].run, costs.jobs[1].waiting_s, len(costs.jobs[0].failure_reason)) == ("dag/run", 5.0, 500)
    assert [(month.model, month.project, month.jobs_usd, month.saved_usd) for month in costs.months] == [
        ("other", "", 1.0, 0.0),
        ("flights", "p", 0.5, 0.5),
    ], "of the last 12 months"
    assert {budget.project: budget.month_usd for budget in costs.budgets} == {"": 1.0, "flights": 0.0, "p": 0.5}
    assert costs.price_dates == "On-demand prices as of 2026-01-02."
    assert [(payer.project, payer.team, payer.cost_usd) for payer in costs.payers] == [("", "", 1.0), ("p", "", 0.5)]
    assert costs.anomalies == []
    assert (costs.payers[0].reserved_usd, costs.unused_commitment_usd) == (None, None), "no commitment is stated"


def test_costs_that_a_commitment_covers(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = dt.datetime.now(dt.UTC)
    (tmp_path / "params.yaml").write_text(
        f"showback: {{commitments: [{{usd_h: 0.7, term: 1y, begin: {now.date()}, discount: 0.3}}]}}\n"
    )
    set_home(monkeypatch, home, tmp_path)
    zeros = dict.fromkeys(("price_usd_h", "saving", "first_capacity_s"), 0.0)
    add_job(1, spot=False, cost_usd=3.0, created=now, started=now, ended=now, **zeros)
    add_job(2, project="q", **zeros)
    assert write() == {}
    costs = read(CostDocument, "costs.json")
    assert [(payer.project, payer.reserved_usd) for payer in costs.payers] == [("p", pytest.approx(1)), ("q", 0)]
    assert costs.unused_commitment_usd == {}, "no whole day is over"


@pytest.fixture
def two_models(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch, one_model_project: Path) -> Path:
    """Set the project to a folder with the models a and b, of the dataset flights; return the folder."""
    project = tmp_path / "project"
    for model in ("a", "b"):
        (project / "models" / model).mkdir(parents=True)
        shutil.copy(ROOT / "models" / "flights" / "params.yaml", project / "models" / model)
    shutil.copy(ROOT / "params.yaml", project)
    set_home(monkeypatch, home, project)
    return project


def test_one_unreadable_model_hides_no_other(two_models: Path, home: Path) -> None:
    assert write() == {}
    old = (home / "status" / "models" / "b.json").read_bytes()
    (two_models / "models" / "b" / "params.yaml").write_text("no_step: {}\n")
    assert list(write()) == ["models/b.json"]
    listing = read(ModelList, "models.json")
    assert [summary.model for summary in listing.models] == ["a"]
    assert "unknown section 'no_step'" in listing.unreadable_models["b"]
    assert (home / "status" / "models" / "b.json").read_bytes() == old, "the old document is kept"
    assert read(DatasetDetails, "data/flights.json").models == ["a"]


def test_damaged_table_spares_what_needs_it_not(two_models: Path, home: Path, source: Any) -> None:
    Lake.open().write_partition("flights", MONDAY, source.read(MONDAY))
    write_drift(MONDAY, "none", {"distance": 0.05})
    assert write() == {}
    (file,) = (home / "lake").rglob("drift_results/data/**/*.parquet")
    file.write_bytes(b"damaged")
    assert sorted(write()) == ["models/a.json", "models/b.json"]
    assert sorted(read(ModelList, "models.json").unreadable_models) == ["a", "b"]
    assert read(CostDocument, "costs.json").budgets[0].budget_usd == 250.0
    with pytest.raises(DataError, match="2 document"):
        CliRunner().invoke(app.build_app("status"), ["status", "--write"], catch_exceptions=False)
    file.unlink()
    assert sorted(write()) == ["models/a.json", "models/b.json"]


def test_damaged_dataset_spares_models_of_others(two_models: Path, home: Path, source: Any) -> None:
    params = two_models / "models" / "b" / "params.yaml"
    params.write_text(params.read_text().replace("dataset: flights", "dataset: weather"))
    Lake.open().write_partition("flights", MONDAY, source.read(MONDAY))
    assert write() == {}
    for path in (home / "lake").rglob("flights/metadata/*"):
        path.unlink()
    assert sorted(write()) == ["data/flights.json", "models/a.json"]
    listing = read(ModelList, "models.json")
    assert [summary.model for summary in listing.models] == ["b"]
    assert [*listing.unreadable_models, *listing.unreadable_documents] == ["a", "data/flights.json"]
    assert read(DatasetDetails, "data/flights.json").newest_partition == "2013-01-07", "the old document is kept"
    assert read(DatasetDetails, "data/weather.json").models == ["b"]


def test_document_of_a_removed_model_is_removed(two_models: Path, home: Path) -> None:
    write()
    shutil.rmtree(two_models / "models" / "b")
    leftover = home / "status" / "models" / ".b.json.abcd1234"
    leftover.touch()
    assert write() == {}
    assert [path.name for path in (home / "status" / "models").glob("*.json")] == ["a.json"]
    assert leftover.exists(), "another writer may still write it"
    assert (home / "status" / "models.json").stat().st_mode & 0o777 == 0o644, "Airflow's user reads it"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--write", "flights"), "--write and --watch are for all models"),
        (("--watch", "--json"), "--write and --watch are for all models"),
        (("--write", "--watch"), "--watch writes the documents, too"),
        (("--interval", "3"), "--interval has no effect without --watch"),
        (("--write", "--interval", "3"), "--interval has no effect without --watch"),
    ],
)
def test_options_without_effect_are_refused(home: Any, arguments: tuple[str, ...], text: str) -> None:
    with pytest.raises(SpecError, match=text):
        CliRunner().invoke(app.build_app("status"), ["status", *arguments], catch_exceptions=False)
    assert not (home / "status").exists()


def test_command_writes_the_documents(two_models: Path, home: Path, fresh_settings: Callable[[], None]) -> None:
    result = CliRunner().invoke(app.build_app("status"), ["status", "--write"], catch_exceptions=False)
    assert (result.exit_code, result.stdout) == (0, "")
    assert [summary.model for summary in read(ModelList, "models.json").models] == ["a", "b"]
