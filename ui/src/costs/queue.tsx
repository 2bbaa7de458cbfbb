// The pools of Airflow, and what waits in them.
import { Box, Text } from "@chakra-ui/react";
import { listPools, listWaitingTasks } from "../airflow/api";
import { useAirflow } from "../airflow/state";
import type { Pool, TaskInstance } from "../airflow/types";
import { useDocument } from "../documents/read";
import type { ModelList } from "../documents/types";
import { formatCount, formatNumber } from "../format";
import { AirflowLink, ViewLink } from "../links";
import { usePolling } from "../poll";
import { ReadError } from "../widgets/notice";
import { EmptyNote, Panel, SmallText } from "../widgets/panel";
import { type Column, DataTable } from "../widgets/table";

const POLL_S = 5;
const MAX_DAGS = 4;

interface PoolRow {
  pool: Pool;
  tasks: TaskInstance[];
}

const formatSlots = (slots: number): string => (slots < 0 ? "no limit" : formatCount(slots));

const COLUMNS: Column<PoolRow>[] = [
  { title: "Pool", wraps: true, minWidth: "8rem", render: ({ pool }) => <b>{pool.name}</b> },
  { title: "Slots", isNumber: true, render: ({ pool }) => formatSlots(pool.slots) },
  { title: "Open", isNumber: true, render: ({ pool }) => formatSlots(pool.open_slots) },
  { title: "Running", isNumber: true, render: ({ pool }) => pool.running_slots },
  {
    title: "Deferred",
    isNumber: true,
    render: ({ pool }) => (
      <>
        <Text>{pool.deferred_slots}</Text>
        {pool.deferred_slots > 0 && !pool.include_deferred && <SmallText>take no slot</SmallText>}
      </>
    ),
  },
  { title: "Wait for a worker", isNumber: true, render: ({ pool }) => pool.queued_slots },
  { title: "Wait for a slot", isNumber: true, render: ({ pool }) => pool.scheduled_slots },
  { title: "What waits", wraps: true, minWidth: "12rem", render: ({ tasks }) => <WaitingDags tasks={tasks} /> },
];

/** Show the pools with their slots, the tasks and runs that wait, and the models whose training is held back. */
export function Queue() {
  const pools = usePolling("pools", POLL_S, listPools);
  const waiting = usePolling("waiting", POLL_S, listWaitingTasks);
  const { tasks = [], total = 0 } = waiting.data ?? {};
  const rows = (pools.data ?? []).map((pool) => ({ pool, tasks: tasks.filter((task) => task.pool === pool.name) }));
  return (
    <Panel title="Queue" note="Slots of Airflow's pools, and the tasks that wait, in all DAGs that you may read">
      {pools.error && <ReadError error={pools.error} what="list of pools" />}
      {waiting.error && <ReadError error={waiting.error} what="list of waiting tasks" />}
      {pools.data && <DataTable label="Pools" rows={rows} columns={COLUMNS} getKey={({ pool }) => pool.name} />}
      {pools.data?.length === 0 && <EmptyNote>There is no pool that you may read.</EmptyNote>}
      <Box fontSize="sm" mt={2}>
        {waiting.data && (
          <Text>
            Tasks that wait for a worker or a slot: {total || "none"}.
            {total > tasks.length && ` The table names the DAGs of ${tasks.length} of them.`}
          </Text>
        )}
        <WaitingRuns />
        <HeldBack />
      </Box>
    </Panel>
  );
}

/** Name the DAGs whose tasks wait, each with the number of its tasks. */
function WaitingDags({ tasks }: { tasks: TaskInstance[] }) {
  const counts = [...Map.groupBy(tasks, (task) => task.dag_id)].sort((a, b) => b[1].length - a[1].length);
  if (counts.length === 0) return <Text color="fg.muted">nothing</Text>;
  return (
    <>
      {counts.slice(0, MAX_DAGS).map(([dagId, group]) => (
        <Text key={dagId}>
          <AirflowLink to={`/dags/${encodeURIComponent(dagId)}`}>{dagId}</AirflowLink>:{" "}
          {formatNumber(group.length, "task")}
        </Text>
      ))}
      {counts.length > MAX_DAGS && <SmallText>and {formatNumber(counts.length - MAX_DAGS, "other DAG")}</SmallText>}
    </>
  );
}

/** Say which runs wait for an earlier run of their DAG. */
function WaitingRuns() {
  const { runs } = useAirflow();
  const counts = [
    ...Map.groupBy(
      runs.filter((run) => run.state === "queued"),
      (run) => run.dag_id,
    ),
  ];
  if (counts.length === 0) return null;
  return (
    <Text mt={1}>
      Runs that wait to start:{" "}
      {counts.map(([dagId, group], index) => (
        <span key={dagId}>
          {index > 0 && ", "}
          <AirflowLink to={`/dags/${encodeURIComponent(dagId)}`}>{dagId}</AirflowLink> ({group.length})
        </span>
      ))}
      .
    </Text>
  );
}

/** Say whose trainings the guards hold back, for example for lack of a budget. */
function HeldBack() {
  const { data } = useDocument<ModelList>("models");
  const models = (data?.document.models ?? []).filter(({ health }) => health === "held back");
  if (models.length === 0) return null;
  return (
    <Box as="ul" listStyleType="none" mt={1}>
      {models.map(({ model, reason }) => (
        <Box as="li" key={model} overflowWrap="anywhere">
          <ViewLink to={`models/${encodeURIComponent(model)}`}>{model}</ViewLink>: {reason}
        </Box>
      ))}
    </Box>
  );
}
