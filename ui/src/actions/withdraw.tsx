// Withdraw a published partition.
import { Text } from "@chakra-ui/react";
import { useState } from "react";
import type { DatasetDetails, PartitionState } from "../documents/types";
import { formatForId, formatCount } from "../format";
import { ActionDialog } from "./dialog";
import { ReasonField } from "./fields";
import { useObstacle, useRunAction } from "./run_action";

interface WithdrawProps {
  details: DatasetDetails;
  partition: PartitionState;
}

/** Offer to withdraw a partition whose rows turned out to be wrong. */
export function Withdraw({ details, partition: newest }: WithdrawProps) {
  // The dialog is about the rows that the visitor saw when it opened.
  const [{ partition, rows, validated_at: validatedAt }, setPartition] = useState(newest);
  const [why, setWhy] = useState("");
  const dataset = details.rows_from || details.dataset;
  const dagId = `${dataset}_withdraw`;
  const obstacle = useObstacle(dagId);
  const action = useRunAction({
    dagId,
    // If two visitors withdraw the same rows, their runs have the same ID, and Airflow starts one run.
    runId: `withdrawal_of_${partition}_validated_${validatedAt ? formatForId(validatedAt) : "never"}`,
    conf: { partition, why },
    done: `The withdrawal of ${partition} was started.`,
    exists: (user) => `${partition} was withdrawn already, by ${user}. Nothing was started now.`,
  });
  return (
    <ActionDialog
      button={`Withdraw ${newest.partition}`}
      title={`Withdraw ${partition} of ${dataset}?`}
      consequences={
        <Text>
          The {formatCount(rows)} published rows of {partition} are removed, with the outcomes of their labels. Older
          snapshots of the lake still have them, so models stay reproducible. The partition counts as refused: no
          training uses it. A later run of {dataset}_ingest publishes it again, if its rows pass: correct the source
          first, or add an expectation. Your name, the time and the reason are recorded.
        </Text>
      }
      confirm={`Withdraw ${partition}`}
      palette="red"
      isReady={why.trim() !== ""}
      obstacle={obstacle}
      action={action}
      onOpen={() => {
        setPartition(newest);
        setWhy("");
      }}
    >
      <ReasonField label="Reason" value={why} onChange={setWhy} />
    </ActionDialog>
  );
}
