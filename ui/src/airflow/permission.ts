// Whether the visitor may start runs of a DAG.
import { useEffect, useState } from "react";
import { RequestError } from "../request";
import { planBackfill } from "./api";

const answers = new Map<string, Promise<boolean>>();

/** Ask Airflow whether the visitor may start runs of a DAG.
 *
 * Airflow 3.3 has no API that returns the visitor's permissions. The dry run of a backfill needs the permission to start
 * runs, and changes nothing. Its answer is 403 only if the permission is missing. Airflow can still refuse an action,
 * because each DAG can have its own permissions. Then the dialog of the action shows it. */
async function askMayStart(dagId: string): Promise<boolean> {
  const day = "2000-01-01T00:00:00Z";
  const request = { dag_id: dagId, from_date: day, to_date: day, max_active_runs: 1, run_backwards: false };
  try {
    await planBackfill({ ...request, reprocess_behavior: "none", dag_run_conf: {} });
    return true;
  } catch (error) {
    return !(error instanceof RequestError && error.status === 403);
  }
}

/** Return whether the visitor may start runs of a DAG; undefined while it is not known. */
export function useMayStart(dagId: string): boolean | undefined {
  const [may, setMay] = useState<boolean>();
  useEffect(() => {
    let isStopped = false;
    const answer = answers.get(dagId) ?? askMayStart(dagId);
    answers.set(dagId, answer);
    void answer.then((value) => !isStopped && setMay(value));
    return () => {
      isStopped = true;
    };
  }, [dagId]);
  return may;
}
