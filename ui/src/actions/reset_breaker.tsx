// Let trainings start again after the breaker held them back.
import { Text } from "@chakra-ui/react";
import { useState } from "react";
import type { ModelDetails } from "../documents/types";
import { ActionDialog } from "./dialog";
import { ReasonField } from "./fields";
import { formatForId, useObstacle, useRunAction } from "./run_action";

/** Offer to reset the breaker of a model. */
export function ResetBreaker({ details }: { details: ModelDetails }) {
  const { model } = details.summary;
  const [why, setWhy] = useState("");
  const [openedAt, setOpenedAt] = useState(new Date());
  const dagId = `${model}_reset_breaker`;
  const obstacle = useObstacle(dagId);
  const action = useRunAction({
    dagId,
    runId: `page_${formatForId(openedAt)}`,
    conf: { why },
    done: "The reset of the breaker was started.",
    exists: () => "The first request has started the reset. Nothing was started now.",
  });
  return (
    <ActionDialog
      button="Reset the breaker"
      title={`Reset the breaker of ${model}?`}
      consequences={
        <Text>
          Drift can start trainings of {model} again, if no other guard holds them back. The breaker no longer counts
          the trainings that did not pass the gate. Your name, the time and the reason are recorded.
        </Text>
      }
      confirm="Reset the breaker"
      isReady={why.trim() !== ""}
      obstacle={details.breaker_open ? obstacle : "The breaker holds no trainings back."}
      action={action}
      onOpen={() => setOpenedAt(new Date())}
    >
      <ReasonField label="Reason" value={why} onChange={setWhy} help="For example, what was repaired." />
    </ActionDialog>
  );
}
