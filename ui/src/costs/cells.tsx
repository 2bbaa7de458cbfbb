// Cells of a job, which the table of jobs that run and that of jobs that have ended share.
import { Text } from "@chakra-ui/react";
import type { JobCost, RunningJob } from "../documents/types";
import { RunLink, ViewLink } from "../links";
import { SmallText } from "../widgets/panel";
import type { Column } from "../widgets/table";
import { UseBars } from "./use";

type Job = RunningJob | JobCost;

export const MODEL: Column<Job> = {
  title: "Model",
  render: ({ model, run }) => (
    <>
      {model && <ViewLink to={`models/${encodeURIComponent(model)}`}>{model}</ViewLink>}
      <SmallText>{run && <RunLink run={run}>run</RunLink>}</SmallText>
    </>
  ),
};

export const INSTANCES: Column<Job> = {
  title: "Instances",
  render: ({ instance_count: count, instance_type: type, spot }) => (
    <>
      <Text>
        {count} × {type}
      </Text>
      <SmallText>{spot ? "spot" : "on demand"}</SmallText>
    </>
  ),
};

export const USE: Column<Job> = { title: "Use", render: ({ use }) => <UseBars use={use} /> };
