// The parts of a model's line, which the table and the cards share.
import { Box, HStack, Stack, Text } from "@chakra-ui/react";
import { Sparkline } from "../charts/sparkline";
import type { ModelSummary } from "../documents/types";
import { formatBudget, formatDay, formatInterval, formatMetric, formatUsd } from "../format";
import { LinkedText, ViewLink } from "../links";
import { Budget } from "../widgets/budget";
import { Shape } from "../widgets/icon";
import { SmallText } from "../widgets/panel";

/** Show the version that is champion, and since when. */
export function Champion({ model }: { model: ModelSummary }) {
  if (!model.champion) return <Text color="fg.muted">none</Text>;
  return (
    <Box>
      <Text>version {model.champion}</Text>
      <SmallText>since {formatDay(model.champion_since)}</SmallText>
      {model.champion_as_of && <SmallText>as of {model.champion_as_of}</SmallText>}
      {model.challenger && <SmallText>challenger: version {model.challenger}</SmallText>}
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
    <HStack gap={2} align="center">
      <Box minW="5.5rem" fontVariantNumeric="tabular-nums" title={`week of ${last.week}`}>
        <Text>
          {performance.metric} <b>{formatMetric(last.value)}</b>
        </Text>
        <SmallText>{interval || "no interval"}</SmallText>
        <SmallText>{last.week}</SmallText>
      </Box>
      <Sparkline performance={performance} />
    </HStack>
  );
}

/** Show the last decision about drift. */
export function Drift({ model }: { model: ModelSummary }) {
  const { drift } = model;
  if (!drift) return <Text color="fg.muted">no decision</Text>;
  const isDrift = drift.outcome === "drift";
  return (
    <Box>
      <HStack gap={1}>
        <Shape name={isDrift ? "wave" : "check"} color={isDrift ? "orange.fg" : "green.fg"} />
        <Text>{isDrift ? "drift" : "none"}</Text>
      </HStack>
      <SmallText>
        up to <LinkedText address={drift.report_url}>{drift.day}</LinkedText>
      </SmallText>
    </Box>
  );
}

/** List the endpoints of a model, with the versions that they serve. */
export function Endpoints({ model }: { model: ModelSummary }) {
  const endpoints = Object.entries(model.endpoints);
  if (endpoints.length === 0) return <Text color="fg.muted">none</Text>;
  return endpoints.map(([endpoint, version]) => (
    <Box key={endpoint}>
      <Text overflowWrap="anywhere">{endpoint}</Text>
      <SmallText>
        version {version}
        {version !== model.champion && ", not the champion"}
      </SmallText>
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
          <Budget
            spent={model.project_month_usd}
            budget={model.budget_usd}
            label={`budget of ${model.project || "all"}`}
          />
          <SmallText>
            {formatUsd(model.project_month_usd)} of {formatBudget(model.budget_usd)}
          </SmallText>
          <SmallText>{model.project || "no project"}</SmallText>
        </>
      )}
    </Stack>
  );
}

/** Link to the dataset of a model, and show its newest partition. */
export function DataState({ model }: { model: ModelSummary }) {
  return (
    <SmallText>
      <ViewLink to={`data/${encodeURIComponent(model.dataset)}`}>
        {model.dataset === model.model ? "data" : `data ${model.dataset}`}
      </ViewLink>{" "}
      {model.newest_partition ? `up to ${model.newest_partition}` : "never published"}
    </SmallText>
  );
}
