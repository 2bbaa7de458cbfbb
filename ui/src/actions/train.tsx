// Start a training.
import { Text } from "@chakra-ui/react";
import { useState } from "react";
import type { ModelDetails } from "../documents/types";
import { formatDay, formatSentence, formatUsd } from "../format";
import { ActionDialog } from "./dialog";
import { DayField } from "./fields";
import { LastRun, useNewestRun } from "./newest_run";
import { useObstacle, useRunAction } from "./run_action";

/** Say what a training costs at most. */
export function TrainingCost({ details, runs = 1 }: { details: ModelDetails; runs?: number }) {
  const { worst_case_usd: cost, text } = details.training_forecast;
  if (cost === null) return <Text>The cost of a training is not known. {formatSentence(text)}</Text>;
  // The cost of a training is an upper bound, so the sum is an upper bound, too.
  const sum = runs === 1 ? "" : `, ${runs} trainings at most ${formatUsd(cost * runs)} USD`;
  return (
    <Text>
      A training costs at most <b>{formatUsd(cost)} USD</b>
      {sum}. {formatSentence(text)}
    </Text>
  );
}

/** Offer to train a model. */
export function Train({ details }: { details: ModelDetails }) {
  const { model } = details.summary;
  const [asOf, setAsOf] = useState(details.guards_as_of ?? formatDay(new Date()));
  const dagId = `${model}_train`;
  const newest = useNewestRun(dagId);
  const obstacle = useObstacle(dagId);
  const action = useRunAction({
    dagId,
    runId: `page_${asOf}_${newest.idPart}`,
    conf: { as_of: asOf },
    done: `The training as of ${asOf} was started.`,
    exists: (user) => `The training as of ${asOf} was started already, by ${user}. Nothing was started now.`,
    newest,
  });
  return (
    <ActionDialog
      button="Train"
      title={`Train ${model}?`}
      consequences={
        <>
          <Text>
            {dagId} starts now. It trains on the rows whose label was known before the chosen day, and the gate judges
            the candidate. A candidate that passes becomes champion, after an approval if the policy requires one. The
            guards never hold back a training that a person starts, but they count it.
          </Text>
          <TrainingCost details={details} />
          <LastRun dagId={dagId} newest={newest} />
        </>
      }
      confirm="Start the training"
      isReady={newest.run !== undefined && /^\d{4}-\d\d-\d\d$/.test(asOf)}
      obstacle={obstacle || newest.problem}
      action={action}
      onOpen={newest.read}
    >
      <DayField label="As of" value={asOf} onChange={setAsOf} help="It sees only rows whose label was known before." />
    </ActionDialog>
  );
}
