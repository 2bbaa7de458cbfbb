// The models as a table, on wide screens.
import { Stack } from "@chakra-ui/react";
import type { ModelSummary } from "../documents/types";
import { ViewLink } from "../links";
import { HealthBadge } from "../widgets/health";
import { type Column, DataTable } from "../widgets/table";
import { Champion, Cost, DataState, Drift, Endpoints, LastPerformance } from "./parts";
import { SmallText } from "../widgets/panel";
import { ModelRuns } from "./runs";

const COLUMNS: Column<ModelSummary>[] = [
  {
    title: "Model",
    wraps: true,
    minWidth: "8rem",
    render: (model) => (
      <>
        <b>
          <ViewLink to={`models/${encodeURIComponent(model.model)}`}>{model.model}</ViewLink>
        </b>
        <DataState model={model} />
      </>
    ),
  },
  {
    title: "Health",
    wraps: true,
    minWidth: "9rem",
    render: (model) => (
      <Stack gap={1} align="start">
        <HealthBadge health={model.health} />
        {model.reason && <SmallText>{model.reason}</SmallText>}
      </Stack>
    ),
  },
  { title: "Champion", render: (model) => <Champion model={model} /> },
  { title: "Performance", render: (model) => <LastPerformance model={model} /> },
  { title: "Drift", render: (model) => <Drift model={model} /> },
  { title: "Runs", render: (model) => <ModelRuns model={model} /> },
  { title: "Endpoint", render: (model) => <Endpoints model={model} /> },
  { title: "Cost of the month", wraps: true, minWidth: "6.5rem", render: (model) => <Cost model={model} /> },
];

/** Show the models as a table. */
export function ModelTable({ models }: { models: ModelSummary[] }) {
  return <DataTable label="Models" columns={COLUMNS} rows={models} getKey={(model) => model.model} />;
}
