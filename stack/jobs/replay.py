"""The replay: run the DAGs for each day of the year, in order, as they would have run in that year."""

from __future__ import annotations

from datetime import date

from stack import display
from stack.errors import RequestError, TaskFailedError
from stack.jobs.job import PROMOTE_PARAMS, Job, Session
from stack.jobs.pipelines_command import run_pipelines
from stack.jobs.replay_loop import MONITOR_DAG, SCORE_DAG, ReplayLoop
from stack.jobs.training_runs import read_training_runs


class Replay(Job):
    """Run the trainings that the schedule and drift would have started, and compare the strategies of retraining."""

    name = "replay"

    def perform(self, session: Session) -> None:
        """Ingest the year, train as of each month, then run the loop through the days."""
        # The moment of the first training, and the first day that its model scores.
        (first_day,) = self.request.as_of
        end = self.request.end
        # The moments of the later trainings: the first day of each month after `first_day`.
        months = [month for month in self.request.months if first_day < month <= end]
        self.ingest(session)
        self.train(session, [first_day], PROMOTE_PARAMS)
        self._require_champion(session, first_day)
        # The models that a training in each month would give. The report compares the loop with them. They are not
        # promoted.
        self.train(session, months, conf={})
        with self.measure_phase("play"), display.show_progress("days replayed") as progress_bar:
            # These DAGs are unpaused only now. Before, each published day would have started runs that nobody needs.
            session.unpause_dags(SCORE_DAG, MONITOR_DAG)
            ReplayLoop(session, [day for day in self.request.days if day >= first_day]).run(progress_bar)
        with self.measure_phase("report"):
            display.open_console().print(self._write_report(session, first_day, end))

    def _require_champion(self, session: Session, first_day: date) -> None:
        (run,) = read_training_runs(session.stack.mlflow_url, self.request.model, [first_day])
        if run.verdict != "passed":
            verdict = run.verdict or "no verdict"
            problem = f"The model as of {first_day} did not pass its gate ({verdict}): no model can score."
            raise RequestError(f"{problem} Give an earlier --from, for more days, or a later --as-of.")

    def _write_report(self, session: Session, first_day: date, end: date) -> str:
        arguments = ["loop", "report", "flights", "--dataset", "flights", "--from", str(first_day), "--to", str(end)]
        result = run_pipelines(self.layout, session.stack, arguments)
        if result.returncode:
            raise TaskFailedError("`pipelines loop report` failed.", result.stderr.strip(), result.returncode)
        return result.stdout.strip()
