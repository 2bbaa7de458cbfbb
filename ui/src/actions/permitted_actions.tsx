// The actions of a view, for visitors who may act.
import { Flex, Text } from "@chakra-ui/react";
import type { ReactNode } from "react";
import { usePermissions } from "../airflow/permission";
import { useHasDag } from "../airflow/state";

/** Show actions only if there is a DAG and the visitor may start runs of it; else say what is missing. */
export function PermittedActions({ dagId, children }: { dagId: string; children: ReactNode }) {
  const permissions = usePermissions(dagId);
  const hasDag = useHasDag();
  if (permissions === undefined) return null;
  if (!hasDag(dagId)) {
    return (
      <Text fontSize="xs" color="fg.muted">
        Airflow has no DAG {dagId}, so there is nothing to start here.
      </Text>
    );
  }
  if (!permissions.may_start) {
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
