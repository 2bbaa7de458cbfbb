// An action that starts a run of a DAG.
import { readNewestRun, readRun, startRun } from "../airflow/api";
import { useAirflow } from "../airflow/state";
import type { DagRun } from "../airflow/types";
import { buildRunPath } from "../links";
import { RequestError } from "../request";
import type { NewestRun } from "./newest_run";
import { type Action, type ActionResult, useAction } from "./use_action";

interface RunRequest {
  dagId: string;
  /** ID of the run. It names what is requested, and the state that the visitor saw. So two visitors who want the same at
   * once have the same ID, and Airflow starts one run. After the state has changed, the action can be done again. */
  runId: string;
  conf: Record<string, unknown>;
  /** What was started, in words. */
  done: string;
  /** Returns the message for a run that exists already.
   * @param user name of the visitor who started it. */
  exists: (user: string) => string;
  /** The newest run of the DAG that the visitor saw. If it is given, nothing is started if there is a newer one now. */
  newest?: NewestRun;
}

/** Return the action that starts the run. */
export function useRunAction(request: RunRequest): Action {
  const { refresh } = useAirflow();
  return useAction(async (): Promise<ActionResult> => {
    const { dagId, runId, newest } = request;
    const latest = newest && (await readNewestRun(dagId));
    if (latest && latest.dag_run_id !== newest.run?.dag_run_id) return describeOtherRun(request, latest);
    try {
      await startRun(dagId, runId, request.conf);
      return { text: request.done, path: buildRunPath(dagId, runId) };
    } catch (error) {
      if (!mayExist(error)) throw error;
      const run = await readRun(dagId, runId).catch(() => null);
      if (!run) throw error;
      return describeOtherRun(request, run);
    }
  }, refresh);
}

/** Return whether a request may have failed because a run with its ID exists already. If two requests arrive at the same
 * moment, both pass Airflow's check, and its database refuses the second one: the status is then 500. */
export const mayExist = (error: unknown): boolean =>
  error instanceof RequestError && (error.status === 409 || error.status >= 500);

/** Describe the run because of which nothing was started. */
function describeOtherRun({ dagId, runId, exists }: RunRequest, run: DagRun): ActionResult {
  const { dag_run_id: id, state, triggering_user_name: user } = run;
  const text =
    id === runId
      ? exists(user ?? "somebody else")
      : `Since you opened this dialog, ${user ?? "Airflow"} has started the run ${id}. Nothing was started now.`;
  const advice = id === runId && state === "failed" ? " It failed: clear it in Airflow to try again." : "";
  return { text: `${text} State of that run: ${state}.${advice}`, path: buildRunPath(dagId, id), wasDone: true };
}

/** Return why runs of a DAG cannot be started; empty if they can. */
export function useObstacle(dagId: string): string {
  const { dags } = useAirflow();
  const dag = dags.get(dagId);
  if (dags.size > 0 && !dag) return `Airflow has no DAG ${dagId}.`;
  if (dag?.is_paused) return `The DAG ${dagId} is paused, so a run would not start. Unpause it first.`;
  return "";
}
