// Validate the rows in quarantine again, and publish those that pass.
import { Code, Stack, Text } from "@chakra-ui/react";
import { useState } from "react";
import { useAirflow } from "../airflow/state";
import type { DatasetDetails } from "../documents/types";
import { formatCount } from "../format";
import { ActionDialog } from "./dialog";
import { formatForId, useObstacle, useRunAction } from "./run_action";

/** Offer to release the rows that are in quarantine. Without the DAG DATASET_release, the dialog shows the command. */
export function Release({ details }: { details: DatasetDetails }) {
  const { dataset } = details;
  const { dags } = useAirflow();
  const [openedAt, setOpenedAt] = useState(new Date());
  const dagId = `${dataset}_release`;
  const obstacle = useObstacle(dagId);
  const partitions = details.partitions.filter((partition) => partition.quarantined_rows > 0);
  const rows = partitions.reduce((sum, partition) => sum + partition.quarantined_rows, 0);
  const [first, last] = [partitions[0]?.partition ?? "", partitions.at(-1)?.partition ?? ""];
  const action = useRunAction({
    dagId,
    runId: `page_${formatForId(openedAt)}`,
    conf: { first, last },
    done: "The release was started.",
    exists: () => "The first request has started the release. Nothing was started now.",
  });
  if (rows === 0) return null;
  return (
    <ActionDialog
      button="Release"
      title={`Release rows of ${dataset} from quarantine?`}
      consequences={
        <Stack gap={2}>
          <Text>
            {formatCount(rows)} rows of {partitions.length} partitions, from {first} to {last}, are validated again.
            Rows that pass are published. The others stay in quarantine.
          </Text>
          {!dags.has(dagId) && (
            <Text>
              Airflow has no DAG for it. Run:{" "}
              <Code>{`python -m pipelines quarantine release --dataset ${dataset} --from ${first} --to ${last}`}</Code>
            </Text>
          )}
        </Stack>
      }
      confirm="Release the rows"
      isReady={dags.has(dagId)}
      obstacle={dags.has(dagId) ? obstacle : ""}
      action={action}
      onOpen={() => setOpenedAt(new Date())}
    />
  );
}
