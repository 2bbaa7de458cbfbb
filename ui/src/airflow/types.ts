// The parts of the responses of Airflow's public API, version 2, that the page uses.

export interface Dag {
  dag_id: string;
  is_paused: boolean;
  next_dagrun_run_after: string | null;
}

export interface DagRun {
  dag_id: string;
  dag_run_id: string;
  state: string;
  run_type: string;
  run_after: string;
  start_date: string | null;
  queued_at: string | null;
  triggering_user_name: string | null;
}

export interface TaskInstance {
  dag_id: string;
  dag_run_id: string;
  task_id: string;
  map_index: number;
  state: string | null;
  start_date: string | null;
  queued_when: string | null;
  pool: string;
}

export interface Pool {
  name: string;
  /** -1: without limit. */
  slots: number;
  include_deferred: boolean;
  running_slots: number;
  /** Slots of tasks that wait for a worker. */
  queued_slots: number;
  /** Slots that tasks wait for. */
  scheduled_slots: number;
  deferred_slots: number;
  open_slots: number;
}

export interface Approval {
  subject: string;
  body: string | null;
  options: string[];
  defaults: string[] | null;
  params: Record<string, unknown>;
  created_at: string;
  task_instance: TaskInstance;
  /** Persons who may answer; empty: all who have the permission. */
  assigned_users: { id: string; name: string }[] | null;
  chosen_options: string[] | null;
  responded_by_user: { id: string; name: string } | null;
}

export interface BackfillRequest {
  dag_id: string;
  from_date: string;
  to_date: string;
  max_active_runs: number;
  reprocess_behavior: "none" | "failed" | "completed";
  run_backwards: boolean;
  dag_run_conf: Record<string, unknown>;
}

export interface Backfill {
  id: number;
  completed_at: string | null;
}

export interface PlannedRun {
  logical_date: string | null;
  partition_key: string | null;
}
