// Approve or reject a promotion.
import { Box, Button, HStack, Text } from "@chakra-ui/react";
import { useState } from "react";
import { checkAddress } from "../address";
import { answerApproval, readApproval } from "../airflow/api";
import { useAirflow } from "../airflow/state";
import type { Approval } from "../airflow/types";
import { formatMoment } from "../format";
import { buildRunPath, ExternalLink } from "../links";
import { RequestError } from "../request";
import { DataTable } from "../widgets/table";
import { ActionDialog } from "./dialog";
import { parseEvidence } from "./evidence";
import { ReasonField } from "./fields";
import { useAction } from "./use_action";

export interface AnswerApprovalProps {
  approval: Approval;
  onOpen: () => void;
  onClose: () => void;
}

/** Offer to answer a request for an approval. */
export function AnswerApproval({ approval, onOpen, onClose }: AnswerApprovalProps) {
  const [option, setOption] = useState("");
  const [why, setWhy] = useState("");
  const { refresh } = useAirflow();
  const { dag_id: dagId, dag_run_id: runId } = approval.task_instance;
  const action = useAction(async () => {
    const path = buildRunPath(dagId, runId);
    try {
      await answerApproval(approval, option, { ...readDefaults(approval.params), why });
      return { text: `The answer was recorded: ${option}.`, path };
    } catch (error) {
      if (!(error instanceof RequestError && error.status === 409)) throw error;
      const { responded_by_user: user, chosen_options: options } = await readApproval(approval);
      const answer = `${user?.name ?? "somebody else"} has answered already: ${options?.join(", ") || "nothing"}`;
      return { text: `${answer}. Your answer was not recorded.`, path, wasDone: true };
    }
  }, refresh);
  return (
    <ActionDialog
      button="Decide"
      title={approval.subject}
      consequences={<Consequences approval={approval} />}
      confirm={option ? `Record: ${option}` : "Choose an answer"}
      palette={option === "Reject" ? "red" : "blue"}
      isReady={option !== "" && why.trim() !== ""}
      action={action}
      onOpen={() => {
        setOption("");
        onOpen();
      }}
      onClose={onClose}
    >
      <Evidence body={approval.body ?? ""} />
      <HStack role="group" aria-label="Answer" wrap="wrap">
        {approval.options.map((name) => (
          <Button
            key={name}
            size="sm"
            variant={option === name ? "solid" : "outline"}
            aria-pressed={option === name}
            onClick={() => setOption(name)}
          >
            {name}
          </Button>
        ))}
      </HStack>
      <ReasonField label="Reason" value={why} onChange={setWhy} help="It is recorded with your name and the answer." />
    </ActionDialog>
  );
}

function Consequences({ approval }: { approval: Approval }) {
  const fallback = approval.defaults?.[0];
  return (
    <Text color="fg.muted">
      If you approve, the candidate becomes champion at once. If you reject it, the champion stays. Waiting since{" "}
      {formatMoment(approval.created_at)}. {fallback && `If nobody answers in time, the answer is: ${fallback}.`}
    </Text>
  );
}

/** Return the default values of the form's fields: Airflow describes each as an object with `value`, or as the value. */
const readDefaults = (params: Record<string, unknown>): Record<string, unknown> =>
  Object.fromEntries(
    Object.entries(params).map(([name, param]) => [
      name,
      typeof param === "object" && param !== null && "value" in param ? param.value : param,
    ]),
  );

/** Show what the gate found, as text and tables. */
export function Evidence({ body }: { body: string }) {
  return (
    <Box
      borderWidth="1px"
      borderRadius="sm"
      p={3}
      maxH="24rem"
      overflow="auto"
      tabIndex={0}
      role="group"
      aria-label="Evidence"
    >
      {parseEvidence(body).map((part, index) =>
        part.kind === "table" ? (
          // The parts of a text never change their places, so the index is their key.
          <Box key={index} mb={3}>
            <DataTable
              label={part.headers.filter(Boolean).join(", ")}
              columns={part.headers.map((title, column) => ({
                title: title || (column === 0 ? "result" : "value"),
                wraps: true,
                minWidth: "4rem",
                render: (row: string[]) => row[column] ?? "",
              }))}
              rows={part.rows}
              getKey={(_, row) => String(row)}
            />
          </Box>
        ) : (
          <Box key={index} mb={3} overflowWrap="anywhere">
            {part.pieces.map(({ text, address }, piece) =>
              address !== undefined && checkAddress(address) ? (
                <ExternalLink key={piece} address={address}>
                  {text}
                </ExternalLink>
              ) : (
                <span key={piece}>{text}</span>
              ),
            )}
          </Box>
        ),
      )}
    </Box>
  );
}
