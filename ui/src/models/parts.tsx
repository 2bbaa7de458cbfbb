// The parts of a model's line, which the table and the cards share.
import { Box, HStack, Stack, Text } from "@chakra-ui/react";
import { listDagIds, useAirflow } from "../airflow/state";
import { Sparkline } from "../charts/sparkline";
import type { ModelSummary } from "../documents/types";
import { formatDay, formatInterval, formatMetric, formatMoment, formatUsd } from "../format";
import { AirflowLink, buildRunPath, ExternalLink } from "../links";
import { Budget } from "../widgets/budget";
import { Shape } from "../widgets/icon";

/** Show small gray text. */
export function Small({ children }: { children: React.ReactNode }) {
  return (
    <Text fontSize="xs" color="fg.muted" overflowWrap="anywhere">
      {children}
    </Text>
  );
}

/** Show the version that is champion, and since when. */
export function Champion({ model }: { model: ModelSummary }) {
  if (!model.champion) return <Text color="fg.muted">none</Text>;
  return (
    <Box>
      <Text>
        version {model.champion}
        {model.challenger && (
          <Text as="span" color="fg.muted">
            , challenger {model.challenger}
          </Text>
        )}
      </Text>
      <Small>since {formatDay(model.champion_since)}</Small>
      {model.champion_as_of && <Small>as of {model.champion_as_of}</Small>}
    </Box>
  );
}

/** Show the metric of the last week, its interval, and a line of the last weeks. */
export function LastPerformance({ model }: { model: ModelSummary }) {
  const { performance } = model;
  const last = performance?.weeks.at(-1);
  if (!performance || !last) return <Text color="fg.muted">no labels</Text>;
  const interval = formatInterval(last.low, last.high);
  return (
    <HStack gap={3} align="center">
      <Box minW="7.5rem" fontVariantNumeric="tabular-nums">
        <Text>
          {performance.metric} <b>{formatMetric(last.value)}</b>
        </Text>
        <Small>{interval || "too few days"}</Small>
        <Small>week of {last.week}</Small>
      </Box>
      <Sparkline performance={performance} />
    </HStack>
  );
}

/** Show the last decision about drift. */
export function Drift({ model }: { model: ModelSummary }) {
  const { drift } = model;
  if (!drift) return <Text color="fg.muted">not decided</Text>;
  const isDrift = drift.outcome === "drift";
  return (
    <Box>
      <HStack gap={1}>
        <Shape name={isDrift ? "wave" : "check"} color={isDrift ? "orange.fg" : "green.fg"} />
        <Text>{isDrift ? "drift" : "none"}</Text>
      </HStack>
      <Small>
        up to <ExternalLink address={drift.report_url}>{drift.day}</ExternalLink>
      </Small>
    </Box>
  );
}

/** Link to the runs of a model that run or wait, and say when the next one starts. */
export function Runs({ model }: { model: ModelSummary }) {
  const { dags, runs } = useAirflow();
  const ids = [...listDagIds(model.model), `${model.dataset}_ingest`];
  const active = runs.filter((run) => ids.includes(run.dag_id));
  const next = ids
    .map((id) => dags.get(id))
    .filter((dag) => dag && !dag.is_paused && dag.next_dagrun_run_after)
    .sort((a, b) => String(a?.next_dagrun_run_after).localeCompare(String(b?.next_dagrun_run_after)))[0];
  return (
    <Box>
      {active.slice(0, 3).map((run) => (
        <HStack key={`${run.dag_id} ${run.dag_run_id}`} gap={1}>
          <Shape name="play" color="blue.fg" />
          <AirflowLink to={buildRunPath(run.dag_id, run.dag_run_id)}>{shortenId(run.dag_id, model)}</AirflowLink>
          <Small>{run.state}</Small>
        </HStack>
      ))}
      {active.length > 3 && <Small>and {active.length - 3} more</Small>}
      {next && <Small>next: {shortenId(next.dag_id, model)} at {formatMoment(next.next_dagrun_run_after)}</Small>}
      {!next && active.length === 0 && <Small>none</Small>}
    </Box>
  );
}

/** Remove the model's name from the ID of its DAG. */
const shortenId = (dagId: string, model: ModelSummary): string =>
  dagId.startsWith(`${model.model}_`) ? dagId.slice(model.model.length + 1) : dagId.slice(model.dataset.length + 1);

/** List the endpoints of a model, with the versions that they serve. */
export function Endpoints({ model }: { model: ModelSummary }) {
  const endpoints = Object.entries(model.endpoints);
  if (endpoints.length === 0) return <Text color="fg.muted">none</Text>;
  return endpoints.map(([endpoint, version]) => (
    <Box key={endpoint}>
      <Text overflowWrap="anywhere">{endpoint}</Text>
      <Small>
        version {version}
        {version !== model.champion && ", not the champion"}
      </Small>
    </Box>
  ));
}

/** Show the cost of the month, and how much of the project's budget is spent. */
export function Cost({ model }: { model: ModelSummary }) {
  return (
    <Stack gap={0.5} align="stretch">
      <Text fontVariantNumeric="tabular-nums">{formatUsd(model.month_usd)} USD</Text>
      {model.budget_usd !== null && (
        <>
          <Budget spent={model.project_month_usd} budget={model.budget_usd} label={`budget of ${model.project || "all"}`} />
          <Small>
            {model.project || "project"}: {formatUsd(model.project_month_usd)} of {formatUsd(model.budget_usd)}
          </Small>
        </>
      )}
    </Stack>
  );
}
