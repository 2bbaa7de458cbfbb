// The newest run of a DAG when a visitor opens a dialog. The ID of a run that is started then contains
// its date, so Airflow refuses a second request for the same thing.
import { Text } from "@chakra-ui/react";
import { useState } from "react";
import { readNewestRun } from "../airflow/api";
import type { DagRun } from "../airflow/types";
import { formatForId, formatMoment } from "../format";
import { buildRunPath, AirflowLink } from "../links";
import { RequestError } from "../request";

export interface NewestRun {
  /** The run that was newest when the dialog was opened; null: there was none; undefined: it is not known. */
  run: DagRun | null | undefined;
  /** Why the newest run could not be read; empty if it was read, or is being read. */
  problem: string;
  /** Text that names the newest run in the ID of a run that is started from the dialog. */
  idPart: string;
  /** Read the newest run. A dialog calls this when it is opened. */
  read: () => void;
}

/** Return the newest run of a DAG. It stays the same while a dialog is open. */
export function useNewestRun(dagId: string): NewestRun {
  const [state, setState] = useState<{ run?: DagRun | null; problem: string }>({ problem: "" });
  const read = async () => {
    setState({ problem: "" });
    try {
      setState({ run: await readNewestRun(dagId), problem: "" });
    } catch (error) {
      const cause = error instanceof RequestError && error.status === 401 ? "Your session has ended." : String(error);
      setState({ problem: `The runs of ${dagId} could not be read. ${cause} Close this dialog, and open it again.` });
    }
  };
  const idPart = `after_${state.run ? formatForId(state.run.run_after) : "none"}`;
  return { run: state.run, problem: state.problem, idPart, read: () => void read() };
}

/** Say which run of the DAG was the last one, so that nobody repeats what somebody else has just started. */
export function LastRun({ dagId, newest: { run, problem } }: { dagId: string; newest: NewestRun }) {
  if (problem) return null;
  if (run === undefined) return <Text>Reading the last run of {dagId} …</Text>;
  if (run === null) return <Text>There was no run of {dagId} before.</Text>;
  return (
    <Text overflowWrap="anywhere">
      Last run: <AirflowLink to={buildRunPath(dagId, run.dag_run_id)}>{run.dag_run_id}</AirflowLink>, {run.state}, of{" "}
      {formatMoment(run.run_after)}
      {run.triggering_user_name && `, started by ${run.triggering_user_name}`}.
    </Text>
  );
}
