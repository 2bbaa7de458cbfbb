// Deploy the champion to its endpoint.
import { Text } from "@chakra-ui/react";
import { useState } from "react";
import type { ModelDetails } from "../documents/types";
import { ActionDialog } from "./dialog";
import { formatForId, useObstacle, useRunAction } from "./run_action";

/** Offer to release the champion to the endpoint. */
export function Deploy({ details }: { details: ModelDetails }) {
  const { model, champion } = details.summary;
  const [openedAt, setOpenedAt] = useState(new Date());
  const dagId = `${model}_deploy`;
  const obstacle = useObstacle(dagId);
  const action = useRunAction({
    dagId,
    runId: `page_release_of_${champion}_${formatForId(openedAt)}`,
    conf: { version: champion },
    done: `The release of version ${champion} was started.`,
    exists: "The release was started by the first request. Nothing was started now.",
  });
  return (
    <ActionDialog
      button="Release"
      title={`Release version ${champion} of ${model} to the endpoint?`}
      consequences={
        <Text>
          {dagId} starts now. If the policy says so, the version first gets copies of the endpoint's requests, and must
          pass. Then the traffic moves to it in steps, and an alarm moves it back. If there is no endpoint yet, one is
          created, which costs money every hour.
        </Text>
      }
      confirm={`Release version ${champion}`}
      isReady={champion !== ""}
      obstacle={champion ? obstacle : "There is no champion."}
      action={action}
      onOpen={() => setOpenedAt(new Date())}
    />
  );
}
