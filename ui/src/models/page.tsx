// The list of all models.
import { Box, Stack, Text } from "@chakra-ui/react";
import { useDocument } from "../documents/read";
import type { ModelList, ModelSummary } from "../documents/types";
import { formatNumber } from "../format";
import { ExternalLink } from "../links";
import { HEALTHS, HealthBadge } from "../widgets/health";
import { Notice } from "../widgets/notice";
import { EmptyNote } from "../widgets/panel";
import { View } from "../view";
import { Approvals } from "./approvals";
import { ModelCards } from "./cards";
import { ModelTable } from "./table";

/** Show the approvals that wait for a person, then all models. */
export function ModelsPage() {
  const result = useDocument<ModelList>("models");
  return (
    <View result={result} what="list of models">
      {(list) => (
        <>
          <Approvals />
          {Object.entries(list.unreadable_models).map(([model, reason]) => (
            <Notice key={model} status="warning" title={`The state of ${model} could not be read.`}>
              {reason}
            </Notice>
          ))}
          {Object.entries(list.unreadable_documents ?? {}).map(([name, reason]) => (
            <Notice key={name} status="warning" title={`${name} could not be written. The page shows an older one.`}>
              {reason}
            </Notice>
          ))}
          {list.models.length === 0 ? (
            <EmptyNote>
              There are no models yet. `python -m pipelines new` creates a project, and a file in dags/ its DAGs.
            </EmptyNote>
          ) : (
            <>
              <Counts list={list} />
              <Box hideBelow="lg">
                <ModelTable models={sortModels(list.models)} />
              </Box>
              <Box hideFrom="lg">
                <ModelCards models={sortModels(list.models)} />
              </Box>
            </>
          )}
        </>
      )}
    </View>
  );
}

/** Count the models of each health, and link to the data docs and MLflow. */
function Counts({ list }: { list: ModelList }) {
  return (
    <Stack direction="row" wrap="wrap" gap={4} align="center" fontSize="sm">
      <Text fontWeight="medium">{formatNumber(list.models.length, "model")}</Text>
      {HEALTHS.map((health) => {
        const count = list.models.filter((model) => model.health === health).length;
        return (
          count > 0 && (
            <Stack key={health} direction="row" gap={1.5} align="center">
              <HealthBadge health={health} />
              <Text fontVariantNumeric="tabular-nums">{count}</Text>
            </Stack>
          )
        );
      })}
      <Stack direction="row" gap={4} ms={{ md: "auto" }}>
        <ExternalLink address={list.docs_url}>Data docs</ExternalLink>
        <ExternalLink address={list.mlflow_url}>MLflow</ExternalLink>
      </Stack>
    </Stack>
  );
}

/** Sort the models: the most serious first, then by name. */
const sortModels = (models: ModelSummary[]): ModelSummary[] =>
  models.toSorted((a, b) => HEALTHS.indexOf(a.health) - HEALTHS.indexOf(b.health) || a.model.localeCompare(b.model));
