// The jobs that run in SageMaker.
import { Text } from "@chakra-ui/react";
import { useDocument } from "../documents/read";
import type { RunningJob, RunningJobs } from "../documents/types";
import { formatMoment, formatNumber } from "../format";
import { RunLink, ViewLink } from "../links";
import { EmptyNote, Panel, SmallText } from "../widgets/panel";
import { type Column, DataTable } from "../widgets/table";
import { UseBars } from "./use";

const COLUMNS: Column<RunningJob>[] = [
  { title: "Job", wraps: true, minWidth: "15rem", render: (job) => job.name },
  {
    title: "Model",
    render: (job) => (
      <>
        {job.model && <ViewLink to={`models/${encodeURIComponent(job.model)}`}>{job.model}</ViewLink>}
        <SmallText>
          <RunLink run={job.run}>run</RunLink>
        </SmallText>
      </>
    ),
  },
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
  {
    title: "Instances",
    render: (job) => (
      <>
        <Text>
          {job.instance_count} × {job.instance_type}
        </Text>
        <SmallText>{job.spot ? "spot" : "on demand"}</SmallText>
      </>
    ),
  },
  {
    title: "Started at",
    render: (job) => (
      <>
        <Text>{formatMoment(job.started) || "waits for instances"}</Text>
        <SmallText>created {formatMoment(job.created)}</SmallText>
      </>
    ),
  },
  { title: "Use", render: (job) => <UseBars use={job.use} /> },
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
          {error ? "They are not known: `python -m pipelines status --watch` asks SageMaker for them." : "Loading."}
        </EmptyNote>
      ) : running.problem ? (
        <EmptyNote>{`They are not known, because SageMaker could not be asked: ${running.problem}`}</EmptyNote>
      ) : running.jobs.length === 0 ? (
        <EmptyNote>No job runs.</EmptyNote>
      ) : (
        <DataTable label="Running jobs" rows={running.jobs} columns={COLUMNS} getKey={(job) => job.name} />
      )}
    </Panel>
  );
}
