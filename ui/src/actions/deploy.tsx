// Deploy the champion to its endpoint.
import { Text } from "@chakra-ui/react";
import { useState } from "react";
import type { ModelDetails } from "../documents/types";
import { ActionDialog } from "./dialog";
import { formatForId, useObstacle, useRunAction } from "./run_action";

/** Offer to deploy the champion to the endpoint. */
export function Deploy({ details }: { details: ModelDetails }) {
  const { model, champion } = details.summary;
  const [openedAt, setOpenedAt] = useState(new Date());
  const dagId = `${model}_deploy`;
  const obstacle = useObstacle(dagId);
  const action = useRunAction({
    dagId,
    runId: `page_deployment_of_${champion}_${formatForId(openedAt)}`,
    conf: { version: champion },
    done: `The deployment of version ${champion} was started.`,
    exists: () => "The first request has started the deployment. Nothing was started now.",
  });
  return (
    <ActionDialog
      button="Deploy"
      title={`Deploy version ${champion} of ${model} to the endpoint?`}
      consequences={
        <Text>
          {dagId} starts now. If the policy has a shadow test, the version first gets copies of the endpoint's requests,
          and must pass. Then it gets the traffic, as the policy says: at once or in steps. An alarm rolls it back. If
          there is no endpoint yet, one is created. It costs money every hour.
        </Text>
      }
      confirm={`Deploy version ${champion}`}
      isReady={champion !== ""}
      obstacle={champion ? obstacle : "There is no champion."}
      action={action}
      onOpen={() => setOpenedAt(new Date())}
    />
  );
}
