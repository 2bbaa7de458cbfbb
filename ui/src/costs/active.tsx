// The trainings that run, and the tasks that wait.
import { Text } from "@chakra-ui/react";
import { listActiveTasks } from "../airflow/api";
import { useAirflow } from "../airflow/state";
import { formatMoment, formatNumber } from "../format";
import { RunLink } from "../links";
import { usePolled } from "../poll";
import { ReadError } from "../widgets/notice";
import { Nothing, Panel } from "../widgets/panel";
import { DataTable } from "../widgets/table";

const POLL_S = 5;
const WAITING = new Set(["queued", "scheduled", "up_for_retry"]);

/** Show the tasks of Airflow that train now, and count those that wait for a slot. */
export function ActiveTasks() {
  const { dags } = useAirflow();
  const { data, error } = usePolled("tasks", POLL_S, listActiveTasks);
  const tasks = (data ?? []).filter((task) => dags.has(task.dag_id));
  const trainings = tasks.filter((task) => task.task_id === "train" && task.state !== null);
  const waiting = tasks.filter((task) => WAITING.has(task.state ?? "")).length;
  return (
    <Panel title="Running jobs" note="Tasks `train` of Airflow that run, or wait for their job (deferred)">
      {error && <ReadError error={error} what="list of tasks" />}
      {trainings.length === 0 ? (
        <Nothing>No training runs.</Nothing>
      ) : (
        <DataTable
          label="Running jobs"
          rows={trainings}
          getKey={(task) => `${task.dag_id} ${task.dag_run_id} ${task.map_index}`}
          columns={[
            { title: "Run", wraps: true, render: (task) => <RunLink run={`${task.dag_id}/${task.dag_run_id}`} /> },
            { title: "State", render: (task) => task.state },
            { title: "Started at", render: (task) => formatMoment(task.start_date) },
          ]}
        />
      )}
      <Text fontSize="sm" mt={2}>{formatNumber(waiting, "task")} of Leeway's DAGs wait in the queue.</Text>
    </Panel>
  );
}
