// The state of Leeway's DAGs in Airflow, for all views of the page.
import { createContext, type ReactNode, useContext, useMemo } from "react";
import { usePolling } from "../poll";
import { RequestError } from "../request";
import { listActiveRuns, listApprovals, listDags } from "./api";
import type { Approval, Dag, DagRun } from "./types";

const DAGS_POLL_S = 60;
const RUNS_POLL_S = 5;
const KINDS = ["train", "score", "monitor", "rollback", "deploy", "serving_monitor", "materialize", "reset_breaker"];

export interface AirflowState {
  dags: Map<string, Dag>;
  runs: DagRun[];
  approvals: Approval[];
  /** Error of the last requests. */
  error: RequestError | undefined;
  refresh: () => void;
}

const NOTHING: AirflowState = { dags: new Map(), runs: [], approvals: [], error: undefined, refresh: () => undefined };
const Context = createContext<AirflowState>(NOTHING);

/** Return the state of Leeway's DAGs in Airflow. */
export const useAirflow = (): AirflowState => useContext(Context);

/** Return the function that says whether Airflow has a DAG; while the DAGs are not known, it returns true. */
export function useHasDag(): (dagId: string) => boolean {
  const { dags } = useAirflow();
  return (dagId) => dags.size === 0 || dags.has(dagId);
}

/** Return the IDs of the DAGs of a model. */
export const listDagIds = (model: string): string[] => KINDS.map((kind) => `${model}_${kind}`);

/** Read the state of Airflow, for all components below. */
export function AirflowProvider({ children }: { children: ReactNode }) {
  const dags = usePolling("dags", DAGS_POLL_S, listDags);
  const work = usePolling("runs", RUNS_POLL_S, async () => {
    const [runs, approvals] = await Promise.all([listActiveRuns(), listApprovals()]);
    return { runs, approvals };
  });
  const state = useMemo(() => {
    const known = new Map((dags.data ?? []).map((dag) => [dag.dag_id, dag]));
    return {
      dags: known,
      runs: (work.data?.runs ?? []).filter((run) => known.has(run.dag_id)),
      approvals: (work.data?.approvals ?? []).filter((approval) => known.has(approval.task_instance.dag_id)),
      error: dags.error ?? work.error,
      refresh: work.refresh,
    };
  }, [dags.data, dags.error, work.data, work.error, work.refresh]);
  return <Context.Provider value={state}>{children}</Context.Provider>;
}
