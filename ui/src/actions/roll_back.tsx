// Roll back to the previous champion.
import { Text } from "@chakra-ui/react";
import { useState } from "react";
import type { ModelDetails } from "../documents/types";
import { formatForId, formatMoment } from "../format";
import { ActionDialog } from "./dialog";
import { ReasonField } from "./fields";
import { useObstacle, useRunAction } from "./run_action";

/** Offer to roll a model back. */
export function RollBack({ details: newest }: { details: ModelDetails }) {
  // The dialog is about the champion that the visitor saw when it opened, even if there is another one by now.
  const [details, setDetails] = useState(newest);
  const { model, champion, champion_since: since } = details.summary;
  const [why, setWhy] = useState("");
  const dagId = `${model}_rollback`;
  const obstacle = useObstacle(dagId);
  const action = useRunAction({
    dagId,
    // If two visitors roll back the same champion, their runs have the same ID, and Airflow starts one run.
    runId: `rollback_of_${champion}_since_${since ? formatForId(since) : "unknown"}`,
    conf: { why, champion },
    done: `The rollback of version ${champion} was started.`,
    exists: (user) => `Version ${champion} was rolled back already, by ${user}. Nothing was started now.`,
  });
  const nothing = newest.summary.champion ? "There was no champion before the present one." : "There is no champion.";
  return (
    <ActionDialog
      button="Roll back"
      title={`Roll back ${model} from version ${champion} to version ${details.rollback_version}?`}
      consequences={
        <>
          <Text>
            Version {details.rollback_version} becomes champion at once, and scores the next days. Version {champion},
            champion since {formatMoment(since)}, is blocked: even if the gate passes it again, it is promoted only with{" "}
            <code>force</code>.
          </Text>
          <Text mt={2}>
            If an endpoint serves the model and {model}_deploy is not paused, version {details.rollback_version} is
            deployed, too. Your name, the time and the reason are recorded.
          </Text>
        </>
      }
      confirm={`Roll back to version ${details.rollback_version}`}
      palette="red"
      isReady={why.trim() !== ""}
      obstacle={newest.rollback_version ? obstacle : nothing}
      action={action}
      onOpen={() => setDetails(newest)}
    >
      <ReasonField label="Reason" value={why} onChange={setWhy} />
    </ActionDialog>
  );
}
