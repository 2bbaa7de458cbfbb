// Calls of Airflow's public API.
import { requestJson } from "../request";
import type { Approval, Backfill, BackfillRequest, Dag, DagRun, PlannedRun, Pool, TaskInstance } from "./types";

const PAGE = 100;
const encode = encodeURIComponent;

/** List all DAGs of Leeway. */
export async function listDags(): Promise<Dag[]> {
  const dags: Dag[] = [];
  for (;;) {
    const path = `api/v2/dags?tags=leeway&limit=${PAGE}&offset=${dags.length}&order_by=dag_id`;
    const answer = await requestJson<{ dags: Dag[]; total_entries: number }>(path);
    dags.push(...answer.dags);
    if (answer.dags.length === 0 || dags.length >= answer.total_entries) return dags;
  }
}

/** List the newest running and the newest queued runs, the running ones first. */
export async function listActiveRuns(): Promise<DagRun[]> {
  const list = async (state: string) => {
    const path = `api/v2/dags/~/dagRuns?state=${state}&order_by=-run_after&limit=${PAGE}`;
    return (await requestJson<{ dag_runs: DagRun[] }>(path)).dag_runs;
  };
  // Two requests, because a backfill can have more queued runs than fit in one response.
  return (await Promise.all(["running", "queued"].map(list))).flat();
}

/** List the requests for an approval that wait for an answer, oldest first. */
export async function listApprovals(): Promise<Approval[]> {
  const states = "state=awaiting_input&state=deferred&state=running";
  const path = `api/v2/dags/~/dagRuns/~/hitlDetails?response_received=false&${states}&order_by=created_at&limit=${PAGE}`;
  return (await requestJson<{ hitl_details: Approval[] }>(path)).hitl_details;
}

/** List the tasks `train` that run, wait for their job, or wait for a slot. */
export async function listTrainings(): Promise<TaskInstance[]> {
  const states = "state=running&state=deferred&state=queued&state=scheduled&state=up_for_retry";
  const path = `api/v2/dags/~/dagRuns/~/taskInstances?task_id=train&${states}&limit=${PAGE}`;
  return (await requestJson<{ task_instances: TaskInstance[] }>(path)).task_instances;
}

/** List the tasks that wait for a slot or for a worker, of all DAGs that the visitor may read; and count all of them. */
export async function listWaitingTasks(): Promise<{ tasks: TaskInstance[]; total: number }> {
  const path = `api/v2/dags/~/dagRuns/~/taskInstances?state=queued&state=scheduled&limit=${PAGE}`;
  const answer = await requestJson<{ task_instances: TaskInstance[]; total_entries: number }>(path);
  return { tasks: answer.task_instances, total: answer.total_entries };
}

/** List the pools, with their slots. */
export const listPools = async (): Promise<Pool[]> =>
  (await requestJson<{ pools: Pool[] }>(`api/v2/pools?order_by=name&limit=${PAGE}`)).pools;

/** Start a run of a DAG. With the same `dag_run_id`, Airflow starts no second one: it answers 409. */
export const startRun = (dagId: string, runId: string, conf: Record<string, unknown>): Promise<DagRun> =>
  requestJson<DagRun>(`api/v2/dags/${encode(dagId)}/dagRuns`, {
    method: "POST",
    json: { dag_run_id: runId, logical_date: null, conf },
  });

/** Read a run of a DAG. */
export const readRun = (dagId: string, runId: string): Promise<DagRun> =>
  requestJson<DagRun>(`api/v2/dags/${encode(dagId)}/dagRuns/${encode(runId)}`);

/** Read the run of a DAG that was created last; null if there is none.
 * @param type only runs of this type, such as `backfill`; empty: all. */
export async function readNewestRun(dagId: string, type = ""): Promise<DagRun | null> {
  const filter = type && `&run_type=${type}`;
  const path = `api/v2/dags/${encode(dagId)}/dagRuns?order_by=-id&limit=1${filter}`;
  return (await requestJson<{ dag_runs: DagRun[] }>(path)).dag_runs[0] ?? null;
}

/** Read a request for an approval, with its answer if there is one. */
export const readApproval = (approval: Approval): Promise<Approval> =>
  requestJson<Approval>(buildApprovalPath(approval));

/** Answer a request for an approval. Airflow takes only one answer: it answers 409 to a second one. */
export function answerApproval(approval: Approval, option: string, params: Record<string, unknown>): Promise<unknown> {
  return requestJson(buildApprovalPath(approval), {
    method: "PATCH",
    json: { chosen_options: [option], params_input: params },
  });
}

function buildApprovalPath({ task_instance: { dag_id, dag_run_id, task_id, map_index } }: Approval): string {
  const run = `api/v2/dags/${encode(dag_id)}/dagRuns/${encode(dag_run_id)}`;
  return `${run}/taskInstances/${encode(task_id)}/${map_index}/hitlDetails`;
}

/** List the runs that a backfill would start. It starts none. */
export async function planBackfill(backfill: BackfillRequest): Promise<PlannedRun[]> {
  const path = "api/v2/backfills/dry_run";
  return (await requestJson<{ backfills: PlannedRun[] }>(path, { method: "POST", json: backfill })).backfills;
}

/** Start a backfill. Airflow runs only one of a DAG at a time: it answers 409 to a second one. */
export const startBackfill = (backfill: BackfillRequest): Promise<Backfill> =>
  requestJson("api/v2/backfills", { method: "POST", json: backfill });

/** List the newest backfills of a DAG, the newest first. */
export const listBackfills = async (dagId: string): Promise<Backfill[]> =>
  (await requestJson<{ backfills: Backfill[] }>(`api/v2/backfills?dag_id=${encode(dagId)}&order_by=-id&limit=10`))
    .backfills;

/** End a backfill. Its runs that wait become failed. */
export const cancelBackfill = (id: number): Promise<Backfill> =>
  requestJson(`api/v2/backfills/${id}/cancel`, { method: "PUT" });
