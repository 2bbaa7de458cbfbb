// The runs of some DAGs that run or wait, and the next one.
import { Box, HStack } from "@chakra-ui/react";
import { listDagIds, useAirflow } from "../airflow/state";
import type { ModelSummary } from "../documents/types";
import { formatMoment } from "../format";
import { AirflowLink, buildRunPath } from "../links";
import { Shape } from "../widgets/icon";
import { SmallText } from "../widgets/panel";

const MAX_RUNS = 3;

/** Link to the runs that run or wait, and say when the next one starts.
 * @param ids IDs of the DAGs.
 * @param prefix name that is left out of the IDs. */
export function Runs({ ids, prefix }: { ids: string[]; prefix: string }) {
  const { dags, runs } = useAirflow();
  const active = runs.filter((run) => ids.includes(run.dag_id));
  const next = ids
    .flatMap((id) => dags.get(id) ?? [])
    .filter((dag) => !dag.is_paused && dag.next_dagrun_run_after)
    .sort((a, b) => String(a.next_dagrun_run_after).localeCompare(String(b.next_dagrun_run_after)))[0];
  const shorten = (id: string) => (id.startsWith(`${prefix}_`) ? id.slice(prefix.length + 1) : id);
  return (
    <Box>
      {active.slice(0, MAX_RUNS).map((run) => (
        <HStack key={`${run.dag_id} ${run.dag_run_id}`} gap={1}>
          <Shape name="play" color="blue.fg" />
          <AirflowLink to={buildRunPath(run.dag_id, run.dag_run_id)}>{shorten(run.dag_id)}</AirflowLink>
          <SmallText>{run.state}</SmallText>
        </HStack>
      ))}
      {active.length > MAX_RUNS && <SmallText>and {active.length - MAX_RUNS} more</SmallText>}
      {next && (
        <>
          <SmallText>next: {shorten(next.dag_id)}</SmallText>
          <SmallText>{formatMoment(next.next_dagrun_run_after)}</SmallText>
        </>
      )}
      {!next && active.length === 0 && <SmallText>none</SmallText>}
    </Box>
  );
}

/** Show the runs of a model's DAGs, and of the DAG that ingests its data. */
export function ModelRuns({ model }: { model: ModelSummary }) {
  return <Runs ids={[...listDagIds(model.model), `${model.dataset}_ingest`]} prefix={model.model} />;
}
