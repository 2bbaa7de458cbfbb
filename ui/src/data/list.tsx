// The list of datasets, from the list of models.
import { Box } from "@chakra-ui/react";
import { useDocument } from "../documents/read";
import type { ModelList, ModelSummary } from "../documents/types";
import { formatMoment } from "../format";
import { ViewLink } from "../links";
import { View } from "../view";
import { EmptyNote } from "../widgets/panel";
import { DataTable } from "../widgets/table";

/** Show all datasets. */
export function DatasetList() {
  const result = useDocument<ModelList>("models");
  return (
    <View result={result} what="list of models">
      {({ models }) => {
        const datasets = groupByDataset(models);
        if (datasets.length === 0) return <EmptyNote>There are no models yet, so there are no datasets.</EmptyNote>;
        return (
          <DataTable
            label="Datasets"
            rows={datasets}
            getKey={([dataset]) => dataset}
            columns={[
              {
                title: "Dataset",
                render: ([dataset]) => (
                  <b>
                    <ViewLink to={`data/${encodeURIComponent(dataset)}`}>{dataset}</ViewLink>
                  </b>
                ),
              },
              { title: "Newest partition", render: ([, [model]]) => model?.newest_partition || "none" },
              { title: "Published at", render: ([, [model]]) => formatMoment(model?.published_at ?? null) || "never" },
              { title: "Models", wraps: true, render: ([, users]) => <ModelLinks models={users} /> },
            ]}
          />
        );
      }}
    </View>
  );
}

function ModelLinks({ models }: { models: ModelSummary[] }) {
  return models.map(({ model }) => (
    <Box as="span" key={model} me={3}>
      <ViewLink to={`models/${encodeURIComponent(model)}`}>{model}</ViewLink>
    </Box>
  ));
}

/** Return each dataset with its models, sorted by name. */
function groupByDataset(models: ModelSummary[]): [string, ModelSummary[]][] {
  const groups = new Map<string, ModelSummary[]>();
  for (const model of models) groups.set(model.dataset, [...(groups.get(model.dataset) ?? []), model]);
  return [...groups].sort(([a], [b]) => a.localeCompare(b));
}
