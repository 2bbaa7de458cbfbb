// The data: all datasets, or one.
import { Box, Flex, Grid, Heading, Text } from "@chakra-ui/react";
import { Backfill } from "../actions/backfill";
import { PermittedActions } from "../actions/permitted_actions";
import { useDocument } from "../documents/read";
import type { DatasetDetails } from "../documents/types";
import { addDays, formatDay, formatMoment, formatNumber } from "../format";
import { ExternalLink, ViewLink } from "../links";
import { Runs } from "../models/runs";
import { View } from "../view";
import { Fact, EmptyNote, Panel, SmallText } from "../widgets/panel";
import { CalendarPanel } from "./calendar_panel";
import { DatasetList } from "./list";
import { Failures } from "./failures";
import { Findings } from "./findings";
import { countStates } from "./states";
import { Volume } from "./volume";

/** Show the data. */
export function DataPage({ dataset }: { dataset: string }) {
  return dataset ? <DatasetPage key={dataset} dataset={dataset} /> : <DatasetList />;
}

function DatasetPage({ dataset }: { dataset: string }) {
  const result = useDocument<DatasetDetails>(`data/${encodeURIComponent(dataset)}`);
  return (
    <Box>
      <Text fontSize="xs" mb={2}>
        <ViewLink to="data">All datasets</ViewLink>
      </Text>
      <View result={result} what={`state of ${dataset}`}>
        {(details) => (
          <>
            <Header details={details} />
            <Facts details={details} />
            {details.partitions.length === 0 ? (
              <Panel title="Partitions">
                <EmptyNote>
                  Nothing was ingested yet. Each run of the DAG {details.rows_from || details.dataset}_ingest ingests a
                  partition.
                </EmptyNote>
              </Panel>
            ) : (
              <>
                <CalendarPanel details={details} />
                <Volume details={details} />
                <Failures failures={details.failures} />
                <Findings partitions={details.partitions} />
              </>
            )}
          </>
        )}
      </View>
    </Box>
  );
}

function Header({ details }: { details: DatasetDetails }) {
  const { dataset, rows_from: source } = details;
  const last = details.partitions.at(-1)?.day ?? formatDay(new Date());
  const dagId = `${source || dataset}_ingest`;
  return (
    <Flex justify="space-between" gap={3} wrap="wrap" align="start">
      <Box minW={0}>
        <Heading as="h2" size="lg" overflowWrap="anywhere">
          {dataset}
        </Heading>
        {source && <SmallText>Its rows are those of {source}: what is done to them concerns both.</SmallText>}
      </Box>
      <PermittedActions dagId={dagId}>
        <Backfill
          dagId={dagId}
          first={formatDay(addDays(last, -6))}
          last={last}
          maxActiveRuns={8}
          effect={`Each run reads the rows of its ${details.unit} from the source, validates them, and publishes them if they pass. A ${details.unit} whose rows did not change stays as it is. The runs cost no job in SageMaker.`}
        />
      </PermittedActions>
    </Flex>
  );
}

function Facts({ details }: { details: DatasetDetails }) {
  const problems = countStates(details.partitions.filter(({ state }) => state !== "published"));
  return (
    <Grid
      templateColumns={{ base: "1fr 1fr", lg: "repeat(6, auto)" }}
      gap={4}
      borderWidth="1px"
      borderRadius="md"
      p={{ base: 3, md: 4 }}
      fontSize="sm"
    >
      <Fact title="Newest partition">
        <Text>{details.newest_partition || "none"}</Text>
      </Fact>
      <Fact title="Published at">
        <Text>{formatMoment(details.published_at) || "never"}</Text>
      </Fact>
      <Fact title="Partitions">
        <Text>{formatNumber(details.partitions.length, details.unit)}</Text>
        <SmallText>{problems || (details.partitions.length > 0 && "all published")}</SmallText>
      </Fact>
      <Fact title="Models">
        {details.models.map((model) => (
          <Box key={model}>
            <ViewLink to={`models/${encodeURIComponent(model)}`}>{model}</ViewLink>
          </Box>
        ))}
      </Fact>
      <Fact title="Runs">
        <Runs ids={[`${details.rows_from || details.dataset}_ingest`]} prefix={details.rows_from || details.dataset} />
      </Fact>
      <Fact title="Validation">
        <ExternalLink address={details.docs_url}>Data docs</ExternalLink>
      </Fact>
    </Grid>
  );
}
