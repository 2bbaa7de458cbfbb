/* Written by `npm --prefix ui run types` from documents.schema.json. Do not edit. */

export interface Documents {
  ModelList: ModelList;
  ModelDetails: ModelDetails;
  DatasetDetails: DatasetDetails;
  CostDocument: CostDocument;
  RunningJobs: RunningJobs;
}
/**
 * File models.json: a summary of each model.
 */
export interface ModelList {
  /**
   * Version of the document's schema.
   */
  schema_version?: 1;
  /**
   * When the document was written, UTC.
   */
  written_at: string;
  /**
   * The models, sorted by name.
   */
  models: ModelSummary[];
  /**
   * Models whose state could not be read, each with the reason.
   */
  unreadable_models: {
    [k: string]: string;
  };
  /**
   * Other documents that could not be written, such as costs.json or data/flights.json, each with the reason. Their
   * old files are still there.
   */
  unreadable_documents?: {
    [k: string]: string;
  };
  /**
   * Address of the data docs.
   */
  docs_url: string;
  /**
   * Address of MLflow; empty if it has no web pages.
   */
  mlflow_url: string;
}
/**
 * A line of the table of models.
 */
export interface ModelSummary {
  /**
   * Registered model.
   */
  model: string;
  /**
   * Dataset of the model.
   */
  dataset: string;
  /**
   * The most serious finding about the model.
   */
  health: "ok" | "drift" | "failed" | "held back" | "no champion";
  /**
   * Details of the finding, in a sentence; empty for `ok`.
   */
  reason: string;
  /**
   * Version that is champion; empty if there is none.
   */
  champion: string;
  /**
   * When it became champion; null if there is none.
   */
  champion_since: string | null;
  /**
   * As-of date of the champion's training; null if it is not known.
   */
  champion_as_of: string | null;
  /**
   * Newest version after the champion that passed the gate or was approved; empty if there is none.
   */
  challenger: string;
  /**
   * The last weeks with labels; null if there are none.
   */
  performance: Performance | null;
  /**
   * The last decision; null if there is none about the champion.
   */
  drift: DriftDecision | null;
  /**
   * Newest published partition of the dataset; empty if there is none.
   */
  newest_partition: string;
  /**
   * When the published data last changed; null if nothing was ever published.
   */
  published_at: string | null;
  /**
   * The last training; null if there was none.
   */
  last_training: LastTraining | null;
  /**
   * Maps each endpoint to the version that it serves.
   */
  endpoints: {
    [k: string]: string;
  };
  /**
   * Cost of the model's ended jobs and metered endpoints in the current month, USD.
   */
  month_usd: number;
  /**
   * Project that pays; empty if there is none.
   */
  project: string;
  /**
   * Cost of all models of the project in the current month, USD.
   */
  project_month_usd: number;
  /**
   * Budget of the month for the project, USD; null if there is none.
   */
  budget_usd: number | null;
}
/**
 * The weekly performance of a model.
 */
export interface Performance {
  /**
   * Name of the metric, such as auc.
   */
  metric: string;
  /**
   * Whether a larger value is better.
   */
  higher_is_better: boolean;
  /**
   * Weeks with labels, oldest first.
   */
  weeks: WeekPerformance[];
}
/**
 * The performance of a model on the rows of a week whose labels are known.
 */
export interface WeekPerformance {
  /**
   * First day of the week, a Monday.
   */
  week: string;
  /**
   * The metric.
   */
  value: number;
  /**
   * Lower end of its 95 % interval; null if the week has too few days.
   */
  low: number | null;
  /**
   * Upper end of its 95 % interval; null if the week has too few days.
   */
  high: number | null;
  /**
   * Number of rows with a known label.
   */
  rows: number;
  /**
   * Versions that scored the rows.
   */
  versions: string[];
}
/**
 * A decision about drift of the champion.
 */
export interface DriftDecision {
  /**
   * Last day of its window.
   */
  day: string;
  /**
   * `drift`, `none` or `undecided`.
   */
  outcome: string;
  /**
   * Why, with a semicolon between the reasons.
   */
  reasons: string;
  /**
   * Version that it is about.
   */
  version: string;
  /**
   * Address of its report; empty if there is none.
   */
  report_url: string;
}
/**
 * The last training that was started.
 */
export interface LastTraining {
  /**
   * The training saw only rows whose label was known before this day.
   */
  as_of: string;
  /**
   * `passed`, `not_passed` or `failed`; empty while it runs.
   */
  outcome: string;
  /**
   * When it was started, UTC.
   */
  at: string;
}
/**
 * File models/NAME.json: everything about a model.
 */
export interface ModelDetails {
  /**
   * Version of the document's schema.
   */
  schema_version?: 1;
  /**
   * When the document was written, UTC.
   */
  written_at: string;
  summary: ModelSummary;
  /**
   * Events of the last year, and always the last 200 events, oldest first.
   */
  events: TimelineEvent[];
  /**
   * Weeks of the last year of its data with a drift decision, oldest first.
   */
  drift_weeks: DriftWeek[];
  /**
   * The champion; null if there is none.
   */
  champion: VersionFacts | null;
  /**
   * The challenger; null if there is none.
   */
  challenger: VersionFacts | null;
  /**
   * Lineage of the versions that the events name, and of champion and challenger, sorted by number.
   */
  lineages?: VersionLineage[];
  /**
   * Version that a rollback would make champion; empty if there is none.
   */
  rollback_version: string;
  /**
   * As-of date of the guards' answers: the day after the newest published day; null without data.
   */
  guards_as_of: string | null;
  /**
   * Answers of all guards of trainings that drift requests, the most serious first.
   */
  guards: GuardAnswer[];
  /**
   * Whether the breaker holds trainings back.
   */
  breaker_open: boolean;
  training_forecast: TrainingForecast;
  /**
   * Drift that requests a training: any, or performance; empty if the document does not say it.
   */
  retrain_on?: string;
  /**
   * Age at which a training is due without drift; null if there is no such age, or no champion.
   */
  training_age?: TrainingAge | null;
  /**
   * Page that lists the drift reports of the model.
   */
  drift_reports_url: string;
  /**
   * Page that lists the evaluations of the model.
   */
  evaluations_url: string;
}
/**
 * An event of the registry or of the loop.
 */
export interface TimelineEvent {
  /**
   * When it was recorded, UTC.
   */
  at: string;
  /**
   * Whether it is an event of the registry or of the loop.
   */
  source: "registry" | "loop";
  /**
   * What happened, such as promoted or held_back.
   */
  kind: string;
  /**
   * Version that it is about; empty if it is about none.
   */
  version: string;
  /**
   * Champion before; empty if the event does not concern the champion.
   */
  from_version: string;
  /**
   * Champion after; empty if the event does not concern the champion.
   */
  to_version: string;
  /**
   * As-of date of the training or of the version; null if there is none.
   */
  as_of: string | null;
  /**
   * Verdict, or result of a training; empty if there is none.
   */
  outcome: string;
  /**
   * What requested a training; empty for other events.
   */
  trigger: string;
  /**
   * Guard that held a training back; empty for other events.
   */
  guard: string;
  /**
   * Person or process that caused it.
   */
  who: string;
  /**
   * The reason, in words.
   */
  why: string;
  /**
   * DAG run, DAG/RUN; empty outside of Airflow.
   */
  run: string;
  /**
   * Address of the report about the version; empty if there is none.
   */
  report_url: string;
}
/**
 * The findings about drift in the windows that ended in a week.
 */
export interface DriftWeek {
  /**
   * First day of the week, a Monday.
   */
  week: string;
  /**
   * Decisions, oldest first.
   */
  decisions: DriftDecision[];
  /**
   * Largest effect of each column, as a multiple of the bound. An effect of 1 or more reaches the bound.
   */
  effects: {
    [k: string]: number;
  };
  /**
   * Columns that were part of an alarm.
   */
  drifted_columns: string[];
}
/**
 * A version, as MLflow and its verdict describe it.
 */
export interface VersionFacts {
  /**
   * Number of the version.
   */
  version: string;
  /**
   * As-of date of its training.
   */
  as_of: string | null;
  /**
   * Its last verdict; empty if there is none.
   */
  outcome: string;
  /**
   * Reason of the verdict.
   */
  reason: string;
  /**
   * Address of the report of its evaluation; empty if there is none.
   */
  report_url: string;
  /**
   * Its page in MLflow; empty if MLflow has no web pages.
   */
  mlflow_url: string;
  /**
   * Values of its last verdict; empty if an older release of Leeway recorded the verdict.
   */
  checks?: CheckResult[];
}
/**
 * A value that the gate measured on the holdout, with its interval.
 */
export interface CheckResult {
  /**
   * Name of the check, such as auc.
   */
  name: string;
  /**
   * The value; null if it is not a number.
   */
  value: number | null;
  /**
   * Lower end of its interval; null if the value is exact.
   */
  low: number | null;
  /**
   * Upper end of its interval; null if the value is exact.
   */
  high: number | null;
  /**
   * passed, failed, undecided; or reported, if there is no bound.
   */
  outcome: string;
}
/**
 * The data and code that a version was trained from, and the days and endpoints that used it.
 */
export interface VersionLineage {
  /**
   * Number of the version.
   */
  version: string;
  /**
   * When it was registered, UTC; null if that was not recorded.
   */
  registered_at: string | null;
  /**
   * As-of date of its training; empty if it is not known.
   */
  as_of: string;
  /**
   * Table of the lake that it was trained on; empty if the registration does not say it. Then the other facts about
   * data, code and training are empty, too.
   */
  table: string;
  /**
   * Iceberg snapshot at which the table was read.
   */
  snapshot_id: string;
  /**
   * Days of the training, FIRST to LAST.
   */
  training_days: string;
  /**
   * Number of rows of the training.
   */
  rows_train: string;
  /**
   * Days on which it was judged, FIRST to LAST.
   */
  holdout_days: string;
  /**
   * Number of rows on which it was judged.
   */
  rows_holdout: string;
  /**
   * Beginning of the SHA-256 of its features, which DVC stores.
   */
  data_version: string;
  /**
   * SHA-256 of dvc.lock; `none` outside of DVC.
   */
  dvc_lock: string;
  /**
   * Commit of the code; it ends with -dirty if the code differed from the commit.
   */
  git_commit: string;
  /**
   * Name of the training job.
   */
  training_job: string;
  /**
   * DAG run of the training, DAG/RUN; empty outside of Airflow.
   */
  run: string;
  /**
   * SHA-256 of the model's files.
   */
  model_digest: string;
  /**
   * Address of the report of its evaluation; empty if there is none.
   */
  report_url: string;
  /**
   * Its page in MLflow; empty if MLflow has no web pages.
   */
  mlflow_url: string;
  /**
   * Page of the table in the data docs; empty if the table is not known.
   */
  data_url: string;
  /**
   * Days that it scored; null if no day that it scored has a profile.
   */
  scored: ScoredDays | null;
  /**
   * Periods in which endpoints served it, oldest first.
   */
  services: ServingPeriod[];
}
/**
 * The days of data that a version scored, as far as their rows have a profile.
 */
export interface ScoredDays {
  /**
   * Table of the predictions.
   */
  table: string;
  /**
   * First of the days.
   */
  first: string;
  /**
   * Last of the days.
   */
  last: string;
  /**
   * Number of the days.
   */
  days: number;
  /**
   * Number of rows.
   */
  rows: number;
}
/**
 * A period in which an endpoint served a version.
 */
export interface ServingPeriod {
  /**
   * Name of the endpoint.
   */
  endpoint: string;
  /**
   * When the version was deployed, UTC.
   */
  since: string;
  /**
   * When another version was deployed, or the endpoint was deleted, UTC; null if the version is served.
   */
  until: string | null;
}
/**
 * The decision of a guard if drift requested a training now.
 */
export interface GuardAnswer {
  /**
   * Name of the guard.
   */
  guard: string;
  /**
   * Why it would hold the training back; empty if it would not.
   */
  why: string;
  /**
   * First as-of date at which the guard would allow the training; null if waiting cannot help, or `why` is empty.
   */
  until: string | null;
}
/**
 * The highest cost of a training.
 */
export interface TrainingForecast {
  /**
   * Cost of the longest run, USD; null if a price is not known.
   */
  worst_case_usd: number | null;
  /**
   * How the cost was computed, or why it is not known.
   */
  text: string;
}
/**
 * The age at which a training is repeated without drift.
 */
export interface TrainingAge {
  /**
   * As-of date of the last training.
   */
  last_as_of: string;
  /**
   * Days after which the next training is due.
   */
  max_age_days: number;
  /**
   * First as-of date at which the next training is due.
   */
  due_on: string;
}
/**
 * File data/DATASET.json: the partitions of a dataset.
 */
export interface DatasetDetails {
  /**
   * Version of the document's schema.
   */
  schema_version?: 1;
  /**
   * When the document was written, UTC.
   */
  written_at: string;
  /**
   * Name of the dataset.
   */
  dataset: string;
  /**
   * Dataset whose published rows it uses; empty: the dataset has its own rows.
   */
  rows_from?: string;
  /**
   * Models that are trained on it.
   */
  models: string[];
  /**
   * Newest published partition; empty if there is none.
   */
  newest_partition: string;
  /**
   * When the published data last changed, UTC; null if nothing was ever published.
   */
  published_at: string | null;
  /**
   * Unit of the partitions.
   */
  unit: "hour" | "day" | "month";
  /**
   * Partitions of the newest three years of data, at most the newest 3,000, oldest first.
   */
  partitions: PartitionState[];
  /**
   * Expectations that failed, the most frequent first.
   */
  failures: ExpectationFailures[];
  /**
   * Page of the dataset in the data docs.
   */
  docs_url: string;
}
/**
 * The last validation of a partition, and its published and quarantined rows.
 */
export interface PartitionState {
  /**
   * Partition, such as 2013-01-02.
   */
  partition: string;
  /**
   * Its date.
   */
  day: string;
  /**
   * published: all rows are published; quarantined: some rows are in quarantine; refused: it is not published; stale:
   * it was refused, but earlier rows of it are still published; not_validated: it is published, but not validated.
   */
  state: "published" | "quarantined" | "refused" | "stale" | "not_validated";
  /**
   * Published rows.
   */
  rows: number;
  /**
   * Rows in quarantine.
   */
  quarantined_rows: number;
  /**
   * Expectations that failed, as text.
   */
  failures: string[];
  /**
   * When it was last validated, UTC.
   */
  validated_at: string | null;
  /**
   * Its page in the data docs; empty if it was never validated.
   */
  url: string;
  /**
   * Its validations before the last one, oldest first. Of successive validations in which the same expectations
   * failed, only the first is listed. If there are more than five, only the oldest are listed.
   */
  earlier_validations?: EarlierValidation[];
}
/**
 * A validation of a partition that was validated again later.
 */
export interface EarlierValidation {
  /**
   * When it was validated, UTC.
   */
  at: string;
  /**
   * passed: nothing worse than an info failed, and all rows were published; warned: warnings failed, so bad rows went
   * to quarantine, or the partition was refused because too many rows were bad (the lake does not record which of
   * the two); refused: a critical expectation failed, or a person withdrew the partition.
   */
  outcome: "passed" | "warned" | "refused";
  /**
   * The first expectations that failed, as text, and the number of the others.
   */
  failures: string[];
}
/**
 * The failures of an expectation.
 */
export interface ExpectationFailures {
  /**
   * Type of the expectation.
   */
  expectation: string;
  /**
   * Its column; empty if it is about the table.
   */
  column: string;
  /**
   * critical, warning or info.
   */
  severity: string;
  /**
   * Number of partitions whose last validation failed this expectation.
   */
  partitions: number;
  /**
   * Newest of these partitions.
   */
  newest_partition: string;
  /**
   * Value that was observed in the newest partition, in words.
   */
  example: string;
}
/**
 * File costs.json: jobs, and what they and the endpoints cost.
 */
export interface CostDocument {
  /**
   * Version of the document's schema.
   */
  schema_version?: 1;
  /**
   * When the document was written, UTC.
   */
  written_at: string;
  /**
   * Current month, YYYY-MM.
   */
  month: string;
  /**
   * The last jobs, newest first.
   */
  jobs: JobCost[];
  /**
   * Costs of the last 12 months by month and model.
   */
  months: MonthCost[];
  /**
   * Endpoints that run.
   */
  endpoints: EndpointCost[];
  /**
   * Projects with costs or a budget.
   */
  budgets: ProjectBudget[];
  /**
   * Dates of the prices, in words; empty if there are no costs.
   */
  price_dates: string;
  /**
   * Sentences about costs that could be avoided, and about endpoints whose size is not judged; may be empty.
   */
  advice: string[];
  /**
   * Costs of the last 12 months by month and who pays; empty in a document of an earlier version of Leeway.
   */
  payers?: PayerCost[];
  /**
   * Maps each month, YYYY-MM, to the part of the stated commitments that was not used, up to yesterday, USD; null if
   * no commitment is stated, or in a document of an earlier version of Leeway.
   */
  unused_commitment_usd?: {
    [k: string]: number;
  } | null;
  /**
   * Sentences about the days of the last four weeks on which a project cost far more than usual.
   */
  anomalies?: string[];
}
/**
 * A job that has ended.
 */
export interface JobCost {
  /**
   * Name of the job in SageMaker.
   */
  name: string;
  /**
   * Model; empty if there is none.
   */
  model: string;
  /**
   * Project that pays.
   */
  project: string;
  /**
   * DAG run, DAG/RUN.
   */
  run: string;
  /**
   * Instance type.
   */
  instance_type: string;
  /**
   * Number of instances.
   */
  instance_count: number;
  /**
   * Whether it ran on spot instances.
   */
  spot: boolean;
  /**
   * State in which it ended.
   */
  status: string;
  /**
   * Why it failed; empty if it did not.
   */
  failure_reason: string;
  /**
   * When it was created, UTC.
   */
  created: string;
  /**
   * When it ended, UTC.
   */
  ended: string | null;
  /**
   * Seconds in which the job worked.
   */
  training_s: number;
  /**
   * Seconds of one instance that are billed.
   */
  billable_s: number;
  /**
   * Seconds in which the job waited for instances.
   */
  waiting_s: number;
  /**
   * Cost, USD.
   */
  cost_usd: number;
  /**
   * Cost of `training_s` seconds of all instances on demand, USD.
   */
  on_demand_usd: number;
  /**
   * Number of interruptions by spot.
   */
  interruptions: number;
  /**
   * Seconds of training that interruptions lost.
   */
  lost_s: number;
  /**
   * How much of its instances the job used; null in a document of an earlier version of Leeway.
   */
  use?: JobUse | null;
}
/**
 * The utilization of a job's instances, from CloudWatch. A field is null if CloudWatch has no value.
 */
export interface JobUse {
  /**
   * Number of vCPUs of an instance; null if it is not known.
   */
  cores: number | null;
  /**
   * CPU; 100 percent is one core.
   */
  cpu: Use | null;
  /**
   * Memory; 100 percent is the memory of an instance.
   */
  memory: Use | null;
  /**
   * Disk; 100 percent is the disk of an instance.
   */
  disk: Use | null;
  /**
   * GPU; 100 percent is one GPU.
   */
  gpu: Use | null;
  /**
   * Memory of the GPU; 100 percent is the memory of one GPU.
   */
  gpu_memory: Use | null;
}
/**
 * The utilization of a resource by a job, over all of its instances.
 */
export interface Use {
  /**
   * Mean, percent.
   */
  mean: number;
  /**
   * Highest value, percent.
   */
  peak: number;
}
/**
 * Costs of a model in a month.
 */
export interface MonthCost {
  /**
   * Month, YYYY-MM.
   */
  month: string;
  /**
   * Model; empty for costs without a model.
   */
  model: string;
  /**
   * Project that pays.
   */
  project: string;
  /**
   * Cost of the jobs that have ended, USD.
   */
  jobs_usd: number;
  /**
   * Cost of the endpoints as far as they were metered, USD.
   */
  endpoints_usd: number;
  /**
   * Amount that spot instances and scaling to zero saved, USD.
   */
  saved_usd: number;
}
/**
 * An endpoint that runs, according to the lake.
 */
export interface EndpointCost {
  /**
   * Name of the endpoint.
   */
  endpoint: string;
  /**
   * Model that it serves.
   */
  model: string;
  /**
   * Its machines, in words.
   */
  machine: string;
  /**
   * Cost of an hour, USD.
   */
  usd_h: number;
  /**
   * End of its last metering, or its start if it was not metered yet, UTC.
   */
  since: string;
}
/**
 * A project, and its budget of a month.
 */
export interface ProjectBudget {
  /**
   * Name of the project; empty: jobs without one.
   */
  project: string;
  /**
   * Spent in the current month, USD.
   */
  month_usd: number;
  /**
   * Expected cost of its running endpoints until the end of the month, USD.
   */
  running_usd: number;
  /**
   * Budget of the month, USD; null if there is none.
   */
  budget_usd: number | null;
}
/**
 * Costs of jobs and endpoints of one payer in one month. A field is empty if it is not known.
 */
export interface PayerCost {
  /**
   * Month, YYYY-MM.
   */
  month: string;
  /**
   * Team.
   */
  team: string;
  /**
   * Project.
   */
  project: string;
  /**
   * Model.
   */
  model: string;
  /**
   * Dataset.
   */
  dataset: string;
  /**
   * Environment, such as production.
   */
  environment: string;
  /**
   * Person for whom the jobs ran.
   */
  user: string;
  /**
   * Cost, USD.
   */
  cost_usd: number;
  /**
   * Cost of the unused part of the instances, as far as their utilization is known, USD.
   */
  idle_usd: number;
  /**
   * Part of the cost that the stated commitments cover, at on-demand prices, USD; null if no commitment is stated, if
   * no price with a savings plan is known, or in a document of an earlier version of Leeway.
   */
  reserved_usd?: number | null;
}
/**
 * File jobs.json: jobs that run.
 */
export interface RunningJobs {
  /**
   * Version of the document's schema.
   */
  schema_version?: 1;
  /**
   * When the document was written, UTC.
   */
  written_at: string;
  /**
   * The jobs, newest first.
   */
  jobs: RunningJob[];
  /**
   * Why SageMaker's list of jobs could not be read; then `jobs` is empty, too. Empty if the list was read.
   */
  problem: string;
}
/**
 * A job in SageMaker that has not ended, and that an operator of Leeway started.
 */
export interface RunningJob {
  /**
   * Name of the job in SageMaker.
   */
  name: string;
  /**
   * training, processing or transform.
   */
  kind: string;
  /**
   * Model; empty if there is none.
   */
  model: string;
  /**
   * DAG run, DAG/RUN.
   */
  run: string;
  /**
   * Instance type.
   */
  instance_type: string;
  /**
   * Number of instances.
   */
  instance_count: number;
  /**
   * Whether it runs on spot instances.
   */
  spot: boolean;
  /**
   * SageMaker's more precise status, such as Training or Interrupted.
   */
  status: string;
  /**
   * When it was created, UTC.
   */
  created: string;
  /**
   * When it got its first instance, UTC; null while it waits.
   */
  started: string | null;
  /**
   * Number of interruptions by spot so far.
   */
  interruptions: number;
  use: JobUse;
}
