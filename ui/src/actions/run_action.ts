// An action that starts a run of a DAG.
import { readRun, startRun } from "../airflow/api";
import { useAirflow } from "../airflow/state";
import { buildRunPath } from "../links";
import { RequestError } from "../request";
import { type Action, type ActionResult, useAction } from "./use_action";

interface RunRequest {
  dagId: string;
  /** ID of the run. Two requests for the same thing have the same one, so that Airflow refuses the second. */
  runId: string;
  conf: Record<string, unknown>;
  /** What was started, in words. */
  done: string;
  /** Returns the message for a run that exists already.
   * @param user name of the visitor who started it. */
  exists: (user: string) => string;
}

/** Return the action that starts the run. */
export function useRunAction(request: RunRequest): Action {
  const { refresh } = useAirflow();
  return useAction(async (): Promise<ActionResult> => {
    const path = buildRunPath(request.dagId, request.runId);
    try {
      await startRun(request.dagId, request.runId, request.conf);
      return { text: request.done, path };
    } catch (error) {
      if (!(error instanceof RequestError && error.status === 409)) throw error;
      const { state, triggering_user_name: user } = await readRun(request.dagId, request.runId);
      const advice = state === "failed" ? " It failed: clear it in Airflow to try again." : "";
      return {
        text: `${request.exists(user ?? "somebody else")} State of that run: ${state}.${advice}`,
        path,
        wasDone: true,
      };
    }
  }, refresh);
}

/** Return why runs of a DAG cannot be started; empty if they can. */
export function useObstacle(dagId: string): string {
  const { dags } = useAirflow();
  const dag = dags.get(dagId);
  if (dags.size > 0 && !dag) return `Airflow has no DAG ${dagId}.`;
  if (dag?.is_paused) return `The DAG ${dagId} is paused, so a run would not start. Unpause it first.`;
  return "";
}

/** Format a time for the ID of a run: `20131120T061403Z`. */
export const formatForId = (moment: string | Date): string =>
  `${new Date(moment).toISOString().slice(0, 19).replace(/[-:]/g, "")}Z`;
