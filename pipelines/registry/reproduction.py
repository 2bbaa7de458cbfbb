"""Rebuilding a registered version, and comparing it with what was recorded of it."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import yaml

from pipelines import params
from pipelines.errors import DataError, InvalidError
from pipelines.registry.versions import PROVENANCE, Registry
from pipelines.settings import settings
from pipelines.steps.reproduce import Check
from pipelines.system.files import digest_files, read_json
from pipelines.system.log import log
from pipelines.versioning import dvc_calls, workspaces
from pipelines.versioning.checkouts import Code
from pipelines.versioning.git import DIRTY
from pipelines.versioning.workspaces import Workspace

FEATURES = "data/features"
KEPT = "data/kept"
"""Where DVC's own copy of the features goes, in the workspace."""
MEMORY_MB = 1_000


@dataclass(frozen=True)
class Record:
    """What was kept of a version: the files of its run, and its model's."""

    folder: Path
    model: Path

    @property
    def provenance(self) -> Mapping[str, Any]:
        """Code, features and model digest."""
        told: Mapping[str, Any] = read_json(self.folder / PROVENANCE, "`evaluate` logs it with the version")
        return told

    @property
    def commit(self) -> str:
        """The commit that has all of its code; empty where none has."""
        told = str(self.provenance["code"]["git_commit"])
        return "" if told == "unknown" or told.endswith(DIRTY) else told


@dataclass
class Rebuilt:
    """A version that was rebuilt, and how it compares."""

    name: str
    version: str
    workspace: Path = Path()
    git_commit: str = ""
    checks: list[Check] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def compare(self, what: str, recorded: object, found: object, note: str = "") -> bool:
        """Whether the two are the same; kept as a check."""
        check = Check(what=what, recorded=str(recorded), found=str(found), note=note)
        self.checks.append(check)
        return check.same


def rebuilt(name: str, which: str, *, retrain: bool) -> Rebuilt:
    """The version `name`@`which`, rebuilt and compared. Stops at the first step whose differences make the next idle.

    Raises:
        DataError: there is no such version, or what rebuilding needs was not kept.
        InvalidError, TryAgainError: a step failed, as its exit code says.
    """
    registry = Registry.open()
    version = registry.named(name, which)
    done = Rebuilt(name, str(version.version))
    scratch = settings().home / "tmp"
    scratch.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="reproduce-", dir=scratch) as folder:
        record = Record(registry.record(version, Path(folder) / "run"), registry.model(version, Path(folder) / "model"))
        _demand_whole(record, f"{name} version {version.version}")
        # Without a commit, the project as it is may be the code: its digest says so.
        with workspaces.open_workspace(f"reproduce.{name}.{version.version}", None, record.commit) as space:
            done.workspace, done.git_commit = space.folder, record.provenance["code"]["git_commit"]
            _compare(done, record, space, retrain=retrain)
    return done


def _demand_whole(record: Record, what: str) -> None:
    names = (PROVENANCE, "snapshot.json", "dvc.lock", params.FILE, "evaluation/metrics.json")
    missing = [name for name in names if not (record.folder / name).is_file()]
    if missing:
        raise DataError(
            f"{what} cannot be rebuilt: its run lacks {', '.join(missing)}.",
            "Register versions by `evaluate` from a workspace, or from a project with a dvc.lock.",
        )


def _compare(done: Rebuilt, record: Record, space: Workspace, *, retrain: bool) -> None:
    done.notes += _environments(record.provenance["code"], asdict(Code.of(space.folder)))
    if not _same_code(done, record, space):
        return
    _restore(record, space.folder)
    kept = _kept(done, record, space)
    log.info("building the features of %s version %s afresh", done.name, done.version)
    dvc_calls.run_module(space, "pipelines", "preprocess")
    _same_features(done, record, space.folder, kept)
    _same_model(done, record)
    dvc_calls.run_module(space, "pipelines", "evaluate", "--model", str(record.model))
    _same_metrics(done, record, space.folder)
    if retrain:
        _retrained(done, record, space)


def _environments(then: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What the versions of libraries are that differ; no failure by themselves."""
    names = sorted({*then["versions"], *now["versions"]})
    pairs = [(name, then["versions"].get(name), now["versions"].get(name)) for name in names]
    notes = [f"{name} was {old or 'not there'}, is {new or 'not there'}" for name, old, new in pairs if old != new]
    return [*notes, "uv.lock is another"] if then["uv_lock"] != now["uv_lock"] else notes


def _same_code(done: Rebuilt, record: Record, space: Workspace) -> bool:
    told = record.provenance["code"]
    why = "" if record.commit else f"it was {told['git_commit']}, so no commit has it; the project has changed since"
    return done.compare("the code", told["digest"], space.code.digest, why)


def _restore(record: Record, folder: Path) -> None:
    """The workspace has the version's parameters, its lock, its pinned snapshot, and nothing else derived."""
    shutil.rmtree(folder / "data", ignore_errors=True)
    (folder / "data").mkdir()
    for name, target in ((params.FILE, "."), ("dvc.lock", "."), ("snapshot.json", "data")):
        shutil.copy2(record.folder / name, folder / target / name)


def _kept(done: Rebuilt, record: Record, space: Workspace) -> Path | None:
    """The copy of the features that DVC kept, compared with the record; None where there is none any more."""
    lock = yaml.safe_load((record.folder / "dvc.lock").read_text(encoding="utf-8")) or {}
    makers = [
        name
        for name, stage in lock.get("stages", {}).items()
        if FEATURES in [out["path"] for out in stage.get("outs", [])]
    ]
    try:
        if makers:
            dvc_calls.pull(space, makers)
    except InvalidError as error:
        log.info("%s", error)
    if not (space.folder / FEATURES).is_dir():
        done.notes.append("DVC has no copy of the features any more")
        return None
    kept = (space.folder / FEATURES).replace(space.folder / KEPT)
    _same_files(done, "kept features", record.provenance["features"], digest_files(kept))
    return kept


def _same_features(done: Rebuilt, record: Record, folder: Path, kept: Path | None) -> None:
    then, now = record.provenance["features"], digest_files(folder / FEATURES)
    notes = {
        name: _rows(kept / name, folder / FEATURES / name)
        for name in now
        if kept and now[name] != then.get(name) == digest_files(kept).get(name)
    }
    _same_files(done, "features", then, now, notes)


def _same_files(
    done: Rebuilt,
    what: str,
    then: Mapping[str, str],
    now: Mapping[str, str],
    notes: Mapping[str, str] | None = None,
) -> None:
    for name in sorted({*then, *now}):
        done.compare(f"{what} {name}", then.get(name, ""), now.get(name, ""), (notes or {}).get(name, ""))


def _rows(kept: Path, made: Path) -> str:
    """How many rows of two Parquet files differ."""
    from pipelines.lake import connect

    def only(one: Path, other: Path) -> int:
        sql = "SELECT count(*) FROM (FROM read_parquet(?) EXCEPT ALL FROM read_parquet(?))"
        row = connection.execute(sql, [str(one), str(other)]).fetchone()
        return int(row[0]) if row else 0

    with connect(MEMORY_MB) as connection:
        try:
            gone, new = only(kept, made), only(made, kept)
        except Exception as error:  # other columns, or no Parquet at all: DuckDB's own words say which
            return str(error).splitlines()[0]
    return f"{gone} rows are gone, {new} are new" if gone or new else "the same rows, written otherwise"


def _same_model(done: Rebuilt, record: Record) -> None:
    from pipelines.system.files import sha256

    done.compare("the registered model", record.provenance["model_digest"], sha256(record.model))


def _same_metrics(done: Rebuilt, record: Record, folder: Path) -> None:
    made = "the step `evaluate` writes it"
    then = read_json(record.folder / "evaluation" / "metrics.json", made)
    now = read_json(folder / "data" / "evaluation" / "metrics.json", made)
    for name in sorted({*then, *now}):
        done.compare(f"metric {name}", then.get(name, ""), now.get(name, ""))


def _retrained(done: Rebuilt, record: Record, space: Workspace) -> None:
    """Trained again with the hyperparameters of the record, and without telling MLflow: the run is the version's."""
    from pipelines.system.files import sha256

    told = read_json(record.folder / "training" / "params.json", "the training script writes it")
    given = json.dumps({name: value for name, value in told.items() if value is not None})
    dvc_calls.run_module(space, "pipelines", "train", "--hyperparameters", given, MLFLOW_TRACKING_URI="")
    found = sha256(space.folder / "data" / "model")
    done.compare("the model, trained again,", record.provenance["model_digest"], found)
