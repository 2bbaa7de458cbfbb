// The last jobs.
import { Box, HStack, Text } from "@chakra-ui/react";
import type { JobCost } from "../documents/types";
import { formatDuration, formatMoment, formatPercent, formatUsd } from "../format";
import { RunLink, ViewLink } from "../links";
import { Shape } from "../widgets/icon";
import { Nothing, Panel, Small } from "../widgets/panel";
import { type Column, DataTable } from "../widgets/table";

const COLUMNS: Column<JobCost>[] = [
  {
    title: "Job",
    wraps: true,
    minWidth: "15rem",
    render: (job) => (
      <>
        <Text>{job.name}</Text>
        {job.failure_reason && <Small>{job.failure_reason}</Small>}
      </>
    ),
  },
  { title: "Model", render: (job) => job.model && <ViewLink to={`models/${encodeURIComponent(job.model)}`}>{job.model}</ViewLink> },
  { title: "Run", render: (job) => job.run && <RunLink run={job.run}>run</RunLink> },
  {
    title: "State",
    render: (job) => (
      <HStack gap={1}>
        <Shape name={job.status === "Completed" ? "check" : "cross"} color={job.status === "Completed" ? "green.fg" : "red.fg"} />
        {job.status}
      </HStack>
    ),
  },
  { title: "Instance", render: (job) => `${job.instance_count} × ${job.instance_type}${job.spot ? ", spot" : ""}` },
  { title: "Ended at", render: (job) => formatMoment(job.ended) },
  { title: "Training", isNumber: true, render: (job) => formatDuration(job.training_s) },
  { title: "Waited", isNumber: true, render: (job) => formatDuration(job.waiting_s) },
  { title: "Interruptions", isNumber: true, render: (job) => (job.interruptions ? `${job.interruptions}, lost ${formatDuration(job.lost_s)}` : "0") },
  { title: "USD", isNumber: true, render: (job) => formatUsd(job.cost_usd) },
  { title: "Saved", isNumber: true, render: (job) => (job.on_demand_usd > 0 ? formatPercent(1 - job.cost_usd / job.on_demand_usd) : "") },
];

/** Show the last jobs, newest first. */
export function JobTable({ jobs }: { jobs: JobCost[] }) {
  return (
    <Panel title="Jobs" note="The last jobs that have ended, newest first. Saved: less than the same seconds on demand">
      {jobs.length === 0 ? (
        <Nothing>No job has ended yet. A run of a DAG MODEL_train starts one.</Nothing>
      ) : (
        <Box><DataTable label="Jobs" rows={jobs} columns={COLUMNS} getKey={(job) => job.name} maxHeight="32rem" /></Box>
      )}
    </Panel>
  );
}
