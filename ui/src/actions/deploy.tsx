// Deploy the champion to its endpoint.
import { Text } from "@chakra-ui/react";
import type { ModelDetails } from "../documents/types";
import { ActionDialog } from "./dialog";
import { LastRun, useNewestRun } from "./newest_run";
import { useObstacle, useRunAction } from "./run_action";

/** Offer to deploy the champion to the endpoint. */
export function Deploy({ details }: { details: ModelDetails }) {
  const { model, champion } = details.summary;
  const dagId = `${model}_deploy`;
  const newest = useNewestRun(dagId);
  const obstacle = useObstacle(dagId) || newest.problem;
  const action = useRunAction({
    dagId,
    runId: `page_deployment_of_${champion}_${newest.idPart}`,
    conf: { version: champion },
    done: `The deployment of version ${champion} was started.`,
    exists: (user) => `The deployment of version ${champion} was started already, by ${user}. Nothing was started now.`,
    newest,
  });
  return (
    <ActionDialog
      button="Deploy"
      title={`Deploy version ${champion} of ${model} to the endpoint?`}
      consequences={
        <>
          <Text>
            {dagId} starts now. If the policy has a shadow test, the version first gets copies of the endpoint's
            requests, and must pass. Then it gets the traffic, as the policy says: at once or in steps. An alarm rolls
            it back. If there is no endpoint yet, one is created. It costs money every hour.
          </Text>
          <LastRun dagId={dagId} newest={newest} />
        </>
      }
      confirm={`Deploy version ${champion}`}
      isReady={champion !== "" && newest.run !== undefined}
      obstacle={champion ? obstacle : "There is no champion."}
      action={action}
      onOpen={newest.read}
    />
  );
}
