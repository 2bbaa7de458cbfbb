"""The year played again, a day at a time, through the DAGs that would have run."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta

from stack import display
from stack.airflow.backfill import Json, Runs, key_of
from stack.airflow.failures import explain
from stack.errors import RequestError, TaskFailedError
from stack.jobs import training_runs
from stack.jobs.job import PROMOTE, TRAIN, Job, Session
from stack.services import environment

SCORE, MONITOR = "flights_score", "flights_monitor"
LOOK = 6
"""Days that are looked at at once, before each is decided on in its turn."""
AHEAD = 2 * LOOK
"""Days that are scored ahead, for the next look: more would only be scored anew after a promotion."""
OWN = "replay__"
"""Begin of the names of the runs that this triggers, a day each."""
BY_DRIFT = "asset_triggered"
_ENDED = ("success", "failed")
_POLL_S = 1.0


class Replay(Job):
    """Leaves every training that time and drift would have started, and a page of what each way was worth."""

    name = "replay"

    def drive(self, session: Session) -> None:
        """Ingests the year, trains as of each month, then lets the loop run through the days."""
        (begin,) = self.request.as_of
        end = self.request.end
        months = [one for one in self.request.months if begin < one <= end]
        self.ingest(session)
        self.train(session, [begin], PROMOTE)
        self._demand_champion(session, begin)
        self.train(session, months, {})  # what "retrain monthly" would have had; they promote nothing
        with self.phase("play"), display.progress("days played") as bar:
            session.unpause(SCORE, MONITOR)  # only now: each day's publication would have started a run for nothing
            Loop(session, [day for day in self.request.days if day >= begin]).play(bar)
        with self.phase("report"):
            display.console().print(self._report(session, begin, end))

    def _demand_champion(self, session: Session, begin: date) -> None:
        (row,) = training_runs.rows(session.stack.mlflow_url, [begin])
        if row.verdict != "passed":
            told = f"The model as of {begin} did not pass its gate ({row.verdict or 'no verdict'}): nobody would score."
            raise RequestError(f"{told} Begin with more days (--from), or later (--as-of).")

    def _report(self, session: Session, begin: date, end: date) -> str:
        command = [
            sys.executable,
            "-m",
            "pipelines",
            "loop",
            "report",
            "flights",
            "--from",
            str(begin),
            "--to",
            str(end),
        ]
        own = environment.build(self.layout, session.stack, os.environ)
        done = subprocess.run(command, env=own, cwd=self.layout.project, capture_output=True, text=True, check=False)
        if done.returncode:
            raise TaskFailedError("`pipelines loop report` failed.", done.stderr.strip(), done.returncode)
        return done.stdout.strip()


def _moment(day: date) -> str:
    """What a training that the day's drift starts is as of."""
    return str(day + timedelta(1))


@dataclass
class Loop:
    """The days in order: each is scored by the champion that it finds, and decided on; drift is waited for.

    Most days nothing drifts, and a day's decision waits for nothing but its process. So some days are looked at
    together, by a backfill that may not retrain. Where it sees drift, or where a promotion came after it, the day has a
    run of its own, which may. Drift that lasts is asked about again once the guard that held it back lets through.

    Attributes:
        session: the stack.
        days: to play.
    """

    session: Session
    days: Sequence[date]
    _promoted: str = field(default="", init=False)
    """When the last training that drift started promoted its model: what was scored before was scored by another."""
    _until: str = field(default="", init=False)
    """The moment from which the last guard lets through by itself; empty where it did, or where it names none."""
    _alarms: int = field(default=0, init=False)
    _answers: dict[str, Json] = field(default_factory=dict, init=False)
    """By run of a training, what its guard answered."""

    def __post_init__(self) -> None:
        """Remembers what Airflow has shown of each DAG."""
        self._scores, self._monitors, self._trainings = (Runs(self.session.api, one) for one in (SCORE, MONITOR, TRAIN))

    def play(self, show: display.Bar) -> None:
        """Returns when each day is scored and decided on, and what drift started has ended. Idempotent.

        Raises:
            TaskFailedError: a run failed; names the task and carries the end of its log.
            UnavailableError: Airflow does not answer.
        """
        self._revive()
        for first in range(0, len(self.days), LOOK):
            looked = self._look(first)
            for done, day in enumerate(self.days[first : first + LOOK], first):
                show(done, len(self.days), f"{day}, {self._alarms} alarms")
                run = looked[day.isoformat()]
                if self._stale(run):
                    self._decide(done, day)
                elif self._seen(run) == "drift":
                    self._alarm(done, day)
        show(len(self.days), len(self.days), f"{self._alarms} alarms")

    def _look(self, first: int) -> dict[str, Json]:
        """What a backfill that may not retrain sees of the days, once they are scored."""
        days = self.days[first : first + LOOK]
        for done, day in enumerate(days, first):
            self._score(day, self.days[done : done + AHEAD])
        looked = self.session.backfill(MONITOR, days, LOOK)
        looked.complete(lambda *_: None)
        return looked.found()

    def _alarm(self, done: int, day: date) -> None:
        """The day is decided on; not where the last guard has named a later moment: it would only say it again."""
        if _moment(day) < self._until:
            self._alarms += 1
        else:
            self._decide(done, day)

    def _decide(self, done: int, day: date) -> None:
        """The day's own run has ended, and the training that it started."""
        self._score(day, self.days[done : done + AHEAD])
        run = self._own_run(day)
        if self._state(MONITOR, run, "drift") == "success":
            self._alarms += 1
            self._retrain(day)

    def _own_run(self, day: date) -> Json:
        """Triggered where there is none, and waited for."""
        self.session.api.trigger(MONITOR, f"{OWN}{day}", conf={"partition": day.isoformat()})
        while True:
            self.session.check()
            for run in self._monitors.look():
                if run["dag_run_id"] == f"{OWN}{day}" and self._ended(run):
                    return run
            time.sleep(_POLL_S)

    def _seen(self, run: Json) -> str:
        return str(self.session.api.result(MONITOR, run["dag_run_id"], "drift").get("outcome", ""))

    def _score(self, day: date, ahead: Sequence[date]) -> None:
        """The day has a run that began after the last promotion; those ahead have one, too."""
        asked: set[date] = set()
        while True:
            self.session.check()
            runs = {run["dag_run_id"]: run for run in self._scores.look()}
            for one in ahead:
                run = runs.get(f"{OWN}{one}")
                if run is None and one not in asked:
                    self.session.api.trigger(SCORE, f"{OWN}{one}", one.isoformat())
                    asked.add(one)
                elif run and run["state"] in _ENDED and self._stale(run):
                    self.session.api.clear(SCORE, run["dag_run_id"])
                elif run and one == day and self._ended(run):
                    return
            time.sleep(_POLL_S)

    def _stale(self, run: Json) -> bool:
        return bool(run["start_date"] and self._promoted and run["start_date"] < self._promoted)

    def _revive(self) -> None:
        """Sets going again what failed in an earlier life of the stack."""
        born = self.session.stack.started_at
        for run in (*self._scores.look(), *self._monitors.look(), *self._trainings.look()):
            ours = run["run_type"] == BY_DRIFT or run["dag_run_id"].startswith(OWN)
            failed = run["state"] == "failed" and not self._held_back(run)
            if ours and failed and datetime.fromisoformat(run["end_date"]) < born:
                self.session.api.clear(run["dag_id"], run["dag_run_id"])

    def _retrain(self, day: date) -> None:
        """What this day's event started has ended."""
        while not ((run := self._started_by(day)) and (self._held_back(run) or self._ended(run))):
            self.session.check()
            time.sleep(_POLL_S)
        self._until = str(self._answer(run).get("until") or "")
        if self._state(TRAIN, run, "promote") == "success":
            self._promoted = run["end_date"]

    def _started_by(self, day: date) -> Json | None:
        """The training that is as of the day's morrow, by what its guard answered."""
        for run in self._trainings.look():
            if run["run_type"] == BY_DRIFT:
                answer = self._answer(run)
                if answer.get("as_of") == _moment(day) or (not answer and run["state"] == "failed"):
                    return run
        return None

    def _held_back(self, run: Json) -> bool:
        """Whether it failed for its guard wants a person: that is an answer, too."""
        return run["state"] == "failed" and self._answer(run).get("outcome") == "held_back"

    def _answer(self, run: Json) -> Json:
        if run["dag_id"] != TRAIN:
            return {}
        known = self._answers.get(run["dag_run_id"]) or self.session.api.result(TRAIN, run["dag_run_id"], "guard")
        self._answers[run["dag_run_id"]] = known
        return known

    def _ended(self, run: Json) -> bool:
        if run["state"] == "failed":
            raise explain(self.session.api, run, key_of(run))
        return bool(run["state"] == "success")

    def _state(self, dag_id: str, run: Json, task_id: str) -> str:
        tasks = self.session.api.tasks(dag_id, run["dag_run_id"])
        return next((str(one["state"]) for one in tasks if one["task_id"] == task_id), "")
