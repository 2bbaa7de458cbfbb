// The trainings that run.
import { listTrainings } from "../airflow/api";
import { useAirflow } from "../airflow/state";
import { formatMoment } from "../format";
import { RunLink } from "../links";
import { usePolling } from "../poll";
import { ReadError } from "../widgets/notice";
import { EmptyNote, Panel } from "../widgets/panel";
import { DataTable } from "../widgets/table";

const POLL_S = 5;

/** Show the tasks of Airflow that train now. */
export function ActiveTasks() {
  const { dags } = useAirflow();
  const { data, error } = usePolling("tasks", POLL_S, listTrainings);
  const trainings = (data ?? []).filter((task) => dags.has(task.dag_id));
  return (
    <Panel title="Running trainings" note="Airflow's tasks `train` that run, or wait for their job (deferred)">
      {error && <ReadError error={error} what="list of tasks" />}
      {trainings.length === 0 ? (
        <EmptyNote>No training runs.</EmptyNote>
      ) : (
        <DataTable
          label="Running trainings"
          rows={trainings}
          getKey={(task) => `${task.dag_id} ${task.dag_run_id} ${task.map_index}`}
          columns={[
            { title: "Run", wraps: true, render: (task) => <RunLink run={`${task.dag_id}/${task.dag_run_id}`} /> },
            { title: "State", render: (task) => task.state },
            { title: "Started at", render: (task) => formatMoment(task.start_date) },
          ]}
        />
      )}
    </Panel>
  );
}
