// The last jobs.
import { Box, HStack, Text } from "@chakra-ui/react";
import type { JobCost } from "../documents/types";
import { formatDuration, formatMoment, formatPercent, formatUsd } from "../format";
import { Shape } from "../widgets/icon";
import { EmptyNote, Panel, SmallText } from "../widgets/panel";
import { type Column, DataTable } from "../widgets/table";
import { INSTANCES, MODEL, USE } from "./cells";

const COLUMNS: Column<JobCost>[] = [
  {
    title: "Job",
    wraps: true,
    minWidth: "11rem",
    render: (job) => (
      <>
        <Text>{job.name}</Text>
        {job.failure_reason && <SmallText>{job.failure_reason}</SmallText>}
      </>
    ),
  },
  MODEL,
  {
    title: "State",
    render: (job) => (
      <>
        <JobState status={job.status} />
        <SmallText>{formatMoment(job.ended)}</SmallText>
      </>
    ),
  },
  INSTANCES,
  {
    title: "Trained",
    isNumber: true,
    render: (job) => (
      <>
        <Text>{formatDuration(job.training_s)}</Text>
        <SmallText>waited {formatDuration(job.waiting_s)}</SmallText>
      </>
    ),
  },
  USE,
  {
    title: "Interrupted",
    isNumber: true,
    render: (job) => (
      <>
        <Text>{job.interruptions}</Text>
        {job.interruptions > 0 && <SmallText>lost {formatDuration(job.lost_s)}</SmallText>}
      </>
    ),
  },
  {
    title: "USD",
    isNumber: true,
    render: (job) => (
      <>
        <Text>{formatUsd(job.cost_usd, 4)}</Text>
        {job.on_demand_usd > 0 && <SmallText>{formatPercent(1 - job.cost_usd / job.on_demand_usd)} saved</SmallText>}
      </>
    ),
  },
];

function JobState({ status }: { status: string }) {
  const isGood = status === "Completed";
  return (
    <HStack gap={1}>
      <Shape name={isGood ? "check" : "cross"} color={isGood ? "green.fg" : "red.fg"} />
      {status}
    </HStack>
  );
}

/** Show the last jobs, newest first. */
export function JobTable({ jobs }: { jobs: JobCost[] }) {
  return (
    <Panel
      title="Jobs"
      note="The last jobs that have ended, newest first. Utilization of their instances: mean / peak. Saved: compared with on-demand instances"
    >
      {jobs.length === 0 ? (
        <EmptyNote>No job has ended yet. A run of a DAG MODEL_train starts one.</EmptyNote>
      ) : (
        <Box>
          <DataTable label="Jobs" rows={jobs} columns={COLUMNS} getKey={(job) => job.name} maxHeight="32rem" />
        </Box>
      )}
    </Panel>
  );
}
