// The jobs that run in SageMaker.
import { Text } from "@chakra-ui/react";
import { useDocument } from "../documents/read";
import type { RunningJob, RunningJobs } from "../documents/types";
import { formatMoment, formatNumber } from "../format";
import { EmptyNote, Panel, SmallText } from "../widgets/panel";
import { type Column, DataTable } from "../widgets/table";
import { INSTANCES, MODEL, USE } from "./cells";

const COLUMNS: Column<RunningJob>[] = [
  { title: "Job", wraps: true, minWidth: "15rem", render: (job) => job.name },
  MODEL,
  {
    title: "State",
    render: (job) => (
      <>
        <Text>{job.status}</Text>
        <SmallText>
          {job.interruptions > 0 ? `interrupted ${formatNumber(job.interruptions, "time")}` : job.kind}
        </SmallText>
      </>
    ),
  },
  INSTANCES,
  {
    title: "Started at",
    render: (job) => (
      <>
        <Text>{formatMoment(job.started) || "waits for instances"}</Text>
        <SmallText>created {formatMoment(job.created)}</SmallText>
      </>
    ),
  },
  USE,
];

/** Show the jobs that run, as SageMaker knows them. */
export function RunningJobTable() {
  const { data, error } = useDocument<RunningJobs>("jobs");
  const running = data?.document;
  return (
    <Panel
      title="Running jobs"
      note={`Jobs in SageMaker, and what they use of their instances so far: mean / peak${
        running ? `. As of ${formatMoment(running.written_at)}` : ""
      }`}
    >
      {!running ? (
        <EmptyNote>
          {error ? "They are not known: `python -m pipelines status --watch` lists them." : "Loading."}
        </EmptyNote>
      ) : running.problem ? (
        <EmptyNote>{`They are not known, because SageMaker's list of jobs could not be read: ${running.problem}`}</EmptyNote>
      ) : running.jobs.length === 0 ? (
        <EmptyNote>No job runs.</EmptyNote>
      ) : (
        <DataTable label="Running jobs" rows={running.jobs} columns={COLUMNS} getKey={(job) => job.name} />
      )}
    </Panel>
  );
}
