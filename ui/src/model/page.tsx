// Everything about a model.
import { Box, Flex, Grid, Heading, HStack, SimpleGrid, Text } from "@chakra-ui/react";
import { useMemo } from "react";
import { useSearchParams } from "react-router-dom";
import { Backfill } from "../actions/backfill";
import { Deploy } from "../actions/deploy";
import { PermittedActions } from "../actions/permitted_actions";
import { ResetBreaker } from "../actions/reset_breaker";
import { RollBack } from "../actions/roll_back";
import { Train, TrainingCost } from "../actions/train";
import { useAirflow, useHasDag } from "../airflow/state";
import { useDocument } from "../documents/read";
import type { ModelDetails } from "../documents/types";
import { addDays, formatDay } from "../format";
import { ExternalLink, ViewLink } from "../links";
import { Approvals } from "../models/approvals";
import { Champion, Cost, DataState, Drift, Endpoints, LastPerformance } from "../models/parts";
import { View } from "../view";
import { HealthBadge } from "../widgets/health";
import { Fact, EmptyNote, Panel, SmallText } from "../widgets/panel";
import { EventPanel } from "./events";
import { Guards } from "./guards";
import { createAxis } from "./timeline/axis";
import { Timeline } from "./timeline/timeline";
import { Versions } from "./versions";
import { WeekPanel } from "./week_panel";
import { ModelRuns } from "../models/runs";

/** Show a model. */
export function ModelPage({ model }: { model: string }) {
  const result = useDocument<ModelDetails>(`models/${encodeURIComponent(model)}`);
  return (
    <Box>
      <Text fontSize="xs" mb={2}>
        <ViewLink to="models">All models</ViewLink>
      </Text>
      <View result={result} what={`state of ${model}`}>
        {(details) => (
          <>
            <Header details={details} />
            <Approvals model={model} />
            <Facts details={details} />
            <History details={details} />
            <SimpleGrid columns={{ base: 1, xl: 2 }} gap={4}>
              <Versions details={details} />
              <Guards details={details} />
            </SimpleGrid>
            <EventPanel events={details.events} />
          </>
        )}
      </View>
    </Box>
  );
}

function Header({ details }: { details: ModelDetails }) {
  const { model, health, reason } = details.summary;
  return (
    <Flex justify="space-between" gap={3} wrap="wrap" align="start">
      <Box minW={0}>
        <HStack gap={3}>
          <Heading as="h2" size="lg" overflowWrap="anywhere">
            {model}
          </Heading>
          <HealthBadge health={health} />
        </HStack>
        {reason && (
          <Text fontSize="sm" overflowWrap="anywhere">
            {reason}
          </Text>
        )}
        <DataState model={details.summary} />
      </Box>
      <Actions details={details} />
    </Flex>
  );
}

function Actions({ details }: { details: ModelDetails }) {
  const { model } = details.summary;
  const { dags } = useAirflow();
  const hasDag = useHasDag();
  const last = details.guards_as_of ?? formatDay(new Date());
  return (
    <PermittedActions dagId={`${model}_train`}>
      <Train details={details} />
      <Backfill
        dagId={`${model}_train`}
        first={formatDay(addDays(last, -90))}
        last={last}
        maxActiveRuns={1}
        effect="Each run trains a model as of its date, and the gate judges it. Nothing is promoted, unless the policy allows a backfill to promote. One run starts after the other has ended."
        renderCost={(runs) => <TrainingCost details={details} runs={runs} />}
      />
      {hasDag(`${model}_rollback`) && <RollBack details={details} />}
      {dags.has(`${model}_deploy`) && <Deploy details={details} />}
      {details.breaker_open && hasDag(`${model}_reset_breaker`) && <ResetBreaker details={details} />}
    </PermittedActions>
  );
}

function Facts({ details }: { details: ModelDetails }) {
  const { summary } = details;
  const training = summary.last_training;
  return (
    <Grid
      templateColumns={{ base: "1fr 1fr", md: "repeat(3, 1fr)", xl: "auto auto auto auto auto auto auto" }}
      gap={4}
      borderWidth="1px"
      borderRadius="md"
      p={{ base: 3, md: 4 }}
      fontSize="sm"
    >
      <Box gridColumn={{ base: "span 2", md: "span 1" }}>
        <Fact title="Performance">
          <LastPerformance model={summary} />
        </Fact>
      </Box>
      <Fact title="Champion">
        <Champion model={summary} />
      </Fact>
      <Fact title="Drift">
        <Drift model={summary} />
        <SmallText>
          <ExternalLink address={details.drift_reports_url}>all drift reports</ExternalLink>
        </SmallText>
      </Fact>
      <Fact title="Last training">
        {training ? (
          <>
            <Text>{training.outcome.replace("_", " ") || "running"}</Text>
            <SmallText>as of {training.as_of}</SmallText>
          </>
        ) : (
          <Text color="fg.muted">none</Text>
        )}
      </Fact>
      <Fact title="Runs">
        <ModelRuns model={summary} />
      </Fact>
      <Fact title="Endpoint">
        <Endpoints model={summary} />
      </Fact>
      <Fact title="Cost of the month">
        <Cost model={summary} />
      </Fact>
    </Grid>
  );
}

/** Show the year and the selected week. The week is a parameter of the page's address. */
function History({ details }: { details: ModelDetails }) {
  const [search, setSearch] = useSearchParams();
  const axis = useMemo(() => createAxis(details), [details]);
  if (!axis) {
    return (
      <Panel title="History">
        <EmptyNote>Nothing is known yet: no event, no labels and no drift decision.</EmptyNote>
      </Panel>
    );
  }
  const requestedWeek = search.get("week") ?? "";
  const week = axis.weeks.includes(requestedWeek) ? requestedWeek : (axis.weeks.at(-1) ?? "");
  return (
    <>
      <Timeline
        details={details}
        axis={axis}
        week={week}
        onSelect={(monday) => setSearch({ week: monday }, { replace: true })}
      />
      <WeekPanel details={details} week={week} />
    </>
  );
}
