// The actions of a view, for visitors who may act.
import { Flex, Text } from "@chakra-ui/react";
import type { ReactNode } from "react";
import { useMayStart } from "../airflow/permission";

/** Show actions only if the visitor may start runs of a DAG; else say that the visitor may not. */
export function PermittedActions({ dagId, children }: { dagId: string; children: ReactNode }) {
  const may = useMayStart(dagId);
  if (may === undefined) return null;
  if (!may) {
    return (
      <Text fontSize="xs" color="fg.muted">
        You can read this page, but not start actions: you do not have Airflow&apos;s permission to start runs of{" "}
        {dagId}.
      </Text>
    );
  }
  return (
    <Flex gap={2} wrap="wrap" role="group" aria-label="Actions">
      {children}
    </Flex>
  );
}
