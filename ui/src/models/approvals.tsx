// The approvals that wait for a person.
import { Box, Flex, Stack, Text } from "@chakra-ui/react";
import { useState } from "react";
import { AnswerApproval } from "../actions/approval";
import { useAirflow } from "../airflow/state";
import type { Approval } from "../airflow/types";
import { formatMoment } from "../format";
import { buildRunPath, AirflowLink } from "../links";
import { Panel } from "../widgets/panel";

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
              <AnswerApproval
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

/** Return a key that identifies a request for an approval. */
const buildKey = ({ task_instance: task }: Approval): string =>
  [task.dag_id, task.dag_run_id, task.task_id, task.map_index].join(" ");
