// The approvals that wait for a person.
import { Box, Flex, Stack, Text } from "@chakra-ui/react";
import { AnswerApproval } from "../actions/approval";
import { useAirflow } from "../airflow/state";
import { formatMoment } from "../format";
import { buildRunPath, AirflowLink } from "../links";
import { Panel } from "../widgets/panel";

/** List the approvals that wait: of one model, or of all. */
export function Approvals({ model }: { model?: string }) {
  const { approvals } = useAirflow();
  const waiting = approvals.filter((approval) => !model || approval.task_instance.dag_id === `${model}_train`);
  if (waiting.length === 0) return null;
  return (
    <Panel title={`Waiting for a decision: ${waiting.length}`}>
      <Stack gap={2}>
        {waiting.map((approval) => {
          const { dag_id: dagId, dag_run_id: runId, task_id: taskId, map_index: index } = approval.task_instance;
          return (
            <Flex key={`${dagId} ${runId} ${taskId} ${index}`} justify="space-between" gap={3} wrap="wrap" align="center">
              <Box minW={0}>
                <Text fontSize="sm" fontWeight="medium" overflowWrap="anywhere">{approval.subject}</Text>
                <Text fontSize="xs" color="fg.muted" overflowWrap="anywhere">
                  since {formatMoment(approval.created_at)}, run{" "}
                  <AirflowLink to={buildRunPath(dagId, runId)}>{`${dagId}/${runId}`}</AirflowLink>
                </Text>
              </Box>
              <AnswerApproval approval={approval} />
            </Flex>
          );
        })}
      </Stack>
    </Panel>
  );
}
