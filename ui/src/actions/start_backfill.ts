// Start a backfill once, also if two visitors want it at the same moment.
import { cancelBackfill, listBackfills, readNewestRun, startBackfill } from "../airflow/api";
import type { BackfillRequest } from "../airflow/types";
import { mayExist } from "./run_action";
import type { ActionResult } from "./use_action";

/** Return the ID of the newest backfill of a DAG; 0 if there is none. */
export const findNewestId = async (dagId: string): Promise<number> => (await listBackfills(dagId))[0]?.id ?? 0;

/** Start a backfill, unless there is a newer one than the visitor saw.
 *
 * Airflow 3.3 refuses a backfill while another one of the DAG is active, but two requests in the same moment can both pass
 * this check. Then the older one stays, and the newer one is canceled.
 * @param seenId ID of the newest backfill when the runs were listed; 0 if there was none. */
export async function startOneBackfill(request: BackfillRequest, seenId: number): Promise<ActionResult> {
  const { dag_id: dagId } = request;
  const path = `/dags/${encodeURIComponent(dagId)}/backfills`;
  const describeOther = async (id: number) => {
    const run = await readNewestRun(dagId, "backfill");
    const user = run?.triggering_user_name ?? "somebody else";
    const text = `Since you listed the runs, ${user} has started backfill ${id} of ${dagId}. Nothing was started now.`;
    return { text, path, wasDone: true };
  };
  const newestId = await findNewestId(dagId);
  if (newestId > seenId) return describeOther(newestId);
  try {
    const { id } = await startBackfill(request);
    const older = (await listBackfills(dagId)).find((each) => each.id > seenId && each.id < id);
    if (!older) return { text: `Backfill ${id} of ${dagId} was started.`, path };
    await cancelBackfill(id);
    const text = `Backfill ${older.id} of ${dagId} was started in the same moment, so yours (${id}) was canceled.`;
    return { text, path, wasDone: true };
  } catch (error) {
    const id = mayExist(error) ? await findNewestId(dagId).catch(() => 0) : 0;
    if (id <= seenId) throw error; // the active backfill is one that the visitor saw: Airflow's message says it
    return describeOther(id);
  }
}
