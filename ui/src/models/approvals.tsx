// The approvals that wait for a person.
import { Box, Flex, Stack, Text } from "@chakra-ui/react";
import { useState } from "react";
import { AnswerApproval, type AnswerApprovalProps, Evidence } from "../actions/approval";
import { usePermissions } from "../airflow/permission";
import { useAirflow } from "../airflow/state";
import type { Approval } from "../airflow/types";
import { formatMoment } from "../format";
import { buildRunPath, AirflowLink } from "../links";
import { Disclosure } from "../widgets/disclosure";
import { Panel, SmallText } from "../widgets/panel";

/** List the approvals that wait: of one model, or of all. */
export function Approvals({ model }: { model?: string }) {
  const { approvals } = useAirflow();
  // An approval whose dialog is open stays in the list after its answer, so that the visitor sees the result.
  const [openApproval, setOpenApproval] = useState<Approval>();
  const known = new Map(approvals.map((approval) => [buildKey(approval), approval]));
  if (openApproval && !known.has(buildKey(openApproval))) known.set(buildKey(openApproval), openApproval);
  const waiting = [...known.values()].filter(({ task_instance: task }) => !model || task.dag_id === `${model}_train`);
  if (waiting.length === 0) return null;
  return (
    <Panel title={`Waiting for a decision: ${waiting.length}`}>
      <Stack gap={2}>
        {waiting.map((approval) => {
          const { dag_id: dagId, dag_run_id: runId } = approval.task_instance;
          return (
            <Flex key={buildKey(approval)} justify="space-between" gap={3} wrap="wrap" align="center">
              <Box minW={0}>
                <Text fontSize="sm" fontWeight="medium" overflowWrap="anywhere">
                  {approval.subject}
                </Text>
                <Text fontSize="xs" color="fg.muted" overflowWrap="anywhere">
                  since {formatMoment(approval.created_at)}, run{" "}
                  <AirflowLink to={buildRunPath(dagId, runId)}>{`${dagId}/${runId}`}</AirflowLink>
                </Text>
              </Box>
              <PermittedAnswer
                approval={approval}
                onOpen={() => setOpenApproval(approval)}
                onClose={() => setOpenApproval(undefined)}
              />
            </Flex>
          );
        })}
      </Stack>
    </Panel>
  );
}

/** Offer to answer, if the visitor may; else show the evidence, and say what is missing. */
function PermittedAnswer(props: AnswerApprovalProps) {
  const { approval } = props;
  const dagId = approval.task_instance.dag_id;
  const assignedUsers = approval.assigned_users ?? [];
  const permissions = usePermissions(
    dagId,
    assignedUsers.map(({ id }) => id),
  );
  if (permissions === undefined) return null;
  if (permissions.may_answer) return <AnswerApproval {...props} />;
  const reason = assignedUsers.length
    ? `Only these persons decide: ${assignedUsers.map(({ name }) => name).join(", ")}.`
    : `You cannot decide: you do not have Airflow's permission to answer approvals of ${dagId}.`;
  return (
    <Box width="full">
      <SmallText>{reason}</SmallText>
      <Disclosure title="Show the evidence">{() => <Evidence body={approval.body ?? ""} />}</Disclosure>
    </Box>
  );
}

/** Return a key that identifies a request for an approval. */
const buildKey = ({ task_instance: task }: Approval): string =>
  [task.dag_id, task.dag_run_id, task.task_id, task.map_index].join(" ");
