// What is known of one week: performance, drift, events, data and lineage.
import { Box, Grid, Stack, Text } from "@chakra-ui/react";
import { useMemo } from "react";
import type { ModelDetails } from "../documents/types";
import { addDays, findMonday, formatCount, formatDay, formatInterval, formatMetric } from "../format";
import { LinkedText } from "../links";
import { Fact, EmptyNote, Panel, SmallText } from "../widgets/panel";
import { EventTable } from "./events";
import { Lineages } from "./lineage";
import { findDay } from "./timeline/axis";
import { WeekData } from "./week_data";
import { listWeekVersions } from "./week_versions";

const MAX_COLUMNS = 5;

/** Show the performance, the drift decisions, the events, the data and the lineage of a week. */
export function WeekPanel({ details, week }: { details: ModelDetails; week: string }) {
  const events = details.events.filter((event) => findMonday(findDay(event)) === week);
  return (
    <Panel title={`Week of ${week} to ${formatDay(addDays(week, 6))}`} note="Days of the data, UTC">
      <Grid templateColumns={{ base: "1fr", md: "minmax(0, 1fr) minmax(0, 2fr)" }} gap={4} fontSize="sm">
        <Stack gap={4}>
          <WeekPerformance details={details} week={week} />
          <WeekDrift details={details} week={week} />
        </Stack>
        <Fact title={`Events: ${events.length}`}>
          {events.length ? <EventTable events={events} hasTimes={false} /> : <EmptyNote>There was no event.</EmptyNote>}
        </Fact>
      </Grid>
      <WeekData dataset={details.summary.dataset} week={week} />
      <WeekLineage details={details} week={week} />
    </Panel>
  );
}

/** Show what the versions of the week were made from. */
function WeekLineage({ details, week }: { details: ModelDetails; week: string }) {
  const versions = useMemo(() => listWeekVersions(details, week), [details, week]);
  return (
    <Box mt={4}>
      <Fact title="Lineage">
        {versions.length ? (
          <Lineages model={details.summary.model} versions={versions} />
        ) : (
          <EmptyNote>No version was trained, judged, promoted or used in this week.</EmptyNote>
        )}
      </Fact>
    </Box>
  );
}

function WeekPerformance({ details, week }: { details: ModelDetails; week: string }) {
  const { performance } = details.summary;
  const measurement = performance?.weeks.find((each) => each.week === week);
  return (
    <Fact title="Performance">
      {performance && measurement ? (
        <Box fontVariantNumeric="tabular-nums">
          <Text>
            {performance.metric} <b>{formatMetric(measurement.value)}</b>{" "}
            {`(${formatInterval(measurement.low, measurement.high) || "too few days for an interval"})`}
          </Text>
          <SmallText>
            {formatCount(measurement.rows)} rows with a label by now, scored by version{" "}
            {measurement.versions.join(", ")}
          </SmallText>
        </Box>
      ) : (
        <Text color="fg.muted">No labels of this week are known.</Text>
      )}
    </Fact>
  );
}

function WeekDrift({ details, week }: { details: ModelDetails; week: string }) {
  const driftWeek = details.drift_weeks.find((each) => each.week === week);
  if (!driftWeek)
    return (
      <Fact title="Drift">
        <Text color="fg.muted">There is no drift decision.</Text>
      </Fact>
    );
  const largest = Object.entries(driftWeek.effects)
    .sort((a, b) => b[1] - a[1])
    .slice(0, MAX_COLUMNS);
  return (
    <Fact title="Drift">
      {driftWeek.decisions.map((decision, index) => (
        <Box key={`${decision.day} ${index}`} mb={1}>
          <Text>
            {decision.outcome} up to <LinkedText address={decision.report_url}>{decision.day}</LinkedText>, version{" "}
            {decision.version}
          </Text>
          {decision.reasons && <SmallText>{decision.reasons}</SmallText>}
        </Box>
      ))}
      <SmallText>Largest effects, as multiples of the bound:</SmallText>
      {largest.map(([column, effect]) => (
        <Grid key={column} templateColumns="1fr auto" fontVariantNumeric="tabular-nums" fontSize="xs">
          <Text overflowWrap="anywhere" fontWeight={effect >= 1 ? "semibold" : "normal"}>
            {column}
          </Text>
          <Text>
            {formatMetric(effect)}
            {effect >= 1 && " above"}
          </Text>
        </Grid>
      ))}
    </Fact>
  );
}
