// What the visitor may do with a DAG.
import { useEffect, useState } from "react";
import { requestJson } from "../request";

export interface Permissions {
  may_start: boolean;
  may_answer: boolean;
}

const answers = new Map<string, Promise<Permissions>>();

/** Ask the page's server which of Airflow's permissions the visitor has. Airflow 3.3 has no API for this.
 *
 * If this fails, the actions are shown, because Airflow checks the permissions again when an action is sent. If Airflow refuses
 * the action, its dialog shows why. */
async function askPermissions(path: string): Promise<Permissions> {
  try {
    return await requestJson<Permissions>(path);
  } catch {
    answers.delete(path); // the next view asks again
    return { may_start: true, may_answer: true };
  }
}

/** Return what the visitor may do with a DAG; undefined while it is not known.
 * @param assignedUsers IDs of the persons who may answer an approval; empty: all who have the permission. */
export function usePermissions(dagId: string, assignedUsers: string[] = []): Permissions | undefined {
  const [permissions, setPermissions] = useState<Permissions>();
  const query = new URLSearchParams(assignedUsers.map((id) => ["assigned", id])).toString();
  const path = `leeway/permissions/${encodeURIComponent(dagId)}${query && `?${query}`}`;
  useEffect(() => {
    let isStopped = false;
    const answer = answers.get(path) ?? askPermissions(path);
    answers.set(path, answer);
    void answer.then((value) => !isStopped && setPermissions(value));
    return () => {
      isStopped = true;
    };
  }, [path]);
  return permissions;
}
