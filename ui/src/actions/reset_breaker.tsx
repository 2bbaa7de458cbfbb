// Let trainings start again after the breaker held them back.
import { Text } from "@chakra-ui/react";
import { useState } from "react";
import type { ModelDetails } from "../documents/types";
import { ActionDialog } from "./dialog";
import { ReasonField } from "./fields";
import { LastRun, useNewestRun } from "./newest_run";
import { useObstacle, useRunAction } from "./run_action";

/** Offer to reset the breaker of a model. */
export function ResetBreaker({ details }: { details: ModelDetails }) {
  const { model } = details.summary;
  const [why, setWhy] = useState("");
  const dagId = `${model}_reset_breaker`;
  const newest = useNewestRun(dagId);
  const obstacle = useObstacle(dagId) || newest.problem;
  const action = useRunAction({
    dagId,
    runId: `page_reset_${newest.idPart}`,
    conf: { why },
    done: "The reset of the breaker was started.",
    exists: (user) => `The reset of the breaker was started already, by ${user}. Nothing was started now.`,
    newest,
  });
  return (
    <ActionDialog
      button="Reset the breaker"
      title={`Reset the breaker of ${model}?`}
      consequences={
        <>
          <Text>
            Drift can start trainings of {model} again, if no other guard holds them back. The breaker no longer counts
            the trainings that did not pass the gate. Your name, the time and the reason are recorded.
          </Text>
          <LastRun dagId={dagId} newest={newest} />
        </>
      }
      confirm="Reset the breaker"
      isReady={newest.run !== undefined && why.trim() !== ""}
      obstacle={details.breaker_open ? obstacle : "The breaker holds no trainings back."}
      action={action}
      onOpen={newest.read}
    >
      <ReasonField label="Reason" value={why} onChange={setWhy} help="For example, what was repaired." />
    </ActionDialog>
  );
}
