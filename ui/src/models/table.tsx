// The models as a table, on wide screens.
import { Stack } from "@chakra-ui/react";
import type { ModelSummary } from "../documents/types";
import { ViewLink } from "../links";
import { HealthBadge } from "../widgets/health";
import { type Column, DataTable } from "../widgets/table";
import { Champion, Cost, Drift, Endpoints, LastPerformance } from "./parts";
import { Small } from "../widgets/panel";
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
        {model.reason && <Small>{model.reason}</Small>}
      </Stack>
    ),
  },
  { title: "Champion", render: (model) => <Champion model={model} /> },
  { title: "Last week of 12", render: (model) => <LastPerformance model={model} /> },
  { title: "Drift", render: (model) => <Drift model={model} /> },
  { title: "Runs", render: (model) => <ModelRuns model={model} /> },
  { title: "Endpoint", render: (model) => <Endpoints model={model} /> },
  { title: "Cost, month", wraps: true, minWidth: "6.5rem", render: (model) => <Cost model={model} /> },
];

/** Link to the dataset of a model, and say how new its data are. */
export function DataState({ model }: { model: ModelSummary }) {
  return (
    <Small>
      <ViewLink to={`data/${encodeURIComponent(model.dataset)}`}>
        {model.dataset === model.model ? "data" : `data ${model.dataset}`}
      </ViewLink>{" "}
      {model.newest_partition ? `up to ${model.newest_partition}` : "never published"}
    </Small>
  );
}

/** Show the models as a table. */
export function ModelTable({ models }: { models: ModelSummary[] }) {
  return <DataTable label="Models" columns={COLUMNS} rows={models} getKey={(model) => model.model} />;
}
