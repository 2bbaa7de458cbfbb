// What jobs and endpoints cost.
import { Box, Grid, SimpleGrid, Stack, Text } from "@chakra-ui/react";
import { useDocument } from "../documents/read";
import type { CostDocument } from "../documents/types";
import { formatUsd } from "../format";
import { View } from "../view";
import { Fact, EmptyNote, Panel, SmallText } from "../widgets/panel";
import { ActiveTasks } from "./active";
import { Budgets } from "./budgets";
import { EndpointTable } from "./endpoints";
import { JobTable } from "./jobs";
import { MonthChart } from "./months";
import { Payers } from "./payers";
import { Queue } from "./queue";
import { RunningJobTable } from "./running";

/** Show the costs. */
export function CostsPage() {
  const result = useDocument<CostDocument>("costs");
  return (
    <View result={result} what="costs">
      {(costs) => (
        <>
          <Totals costs={costs} />
          <SimpleGrid columns={{ base: 1, xl: 2 }} gap={4}>
            <MonthChart costs={costs} />
            <Stack gap={4} minW={0}>
              <Budgets costs={costs} />
              <Sentences
                title="Unusual days"
                note="Days of the last four weeks on which a project cost far more than usual"
                sentences={costs.anomalies ?? []}
              />
            </Stack>
          </SimpleGrid>
          <SimpleGrid columns={{ base: 1, xl: 2 }} gap={4}>
            <Payers payers={costs.payers ?? []} unusedCommitments={costs.unused_commitment_usd ?? null} />
            <Sentences title="What could cost less" sentences={costs.advice} />
          </SimpleGrid>
          <SimpleGrid columns={{ base: 1, xl: 2 }} gap={4}>
            <EndpointTable endpoints={costs.endpoints} />
            <ActiveTasks />
          </SimpleGrid>
          <RunningJobTable />
          <Queue />
          <JobTable jobs={costs.jobs} />
          {costs.price_dates && <SmallText>{costs.price_dates}</SmallText>}
        </>
      )}
    </View>
  );
}

function Totals({ costs }: { costs: CostDocument }) {
  const current = costs.months.filter(({ month }) => month === costs.month);
  const sum = (read: (row: (typeof current)[number]) => number) => current.reduce((total, row) => total + read(row), 0);
  const hourly = costs.endpoints.reduce((total, endpoint) => total + endpoint.usd_h, 0);
  const facts = [
    { title: `Spent in ${costs.month}`, value: `${formatUsd(sum((row) => row.jobs_usd + row.endpoints_usd))} USD` },
    { title: "Jobs", value: `${formatUsd(sum((row) => row.jobs_usd))} USD` },
    { title: "Endpoints", value: `${formatUsd(sum((row) => row.endpoints_usd))} USD` },
    { title: "Saved by spot and scaling to zero", value: `${formatUsd(sum((row) => row.saved_usd))} USD` },
    { title: "Endpoints now", value: `${formatUsd(hourly)} USD an hour` },
  ];
  return (
    <Grid
      templateColumns={{ base: "1fr 1fr", lg: "repeat(5, auto)" }}
      gap={4}
      borderWidth="1px"
      borderRadius="md"
      p={{ base: 3, md: 4 }}
    >
      {facts.map(({ title, value }) => (
        <Fact key={title} title={title}>
          <Text fontWeight="medium" fontVariantNumeric="tabular-nums">
            {value}
          </Text>
        </Fact>
      ))}
    </Grid>
  );
}

interface SentencesProps {
  title: string;
  note?: string;
  sentences: string[];
}

function Sentences({ title, note, sentences }: SentencesProps) {
  return (
    <Panel title={title} note={note}>
      {sentences.length === 0 ? (
        <EmptyNote>Nothing was found.</EmptyNote>
      ) : (
        <Stack as="ul" gap={1.5} ps={5} fontSize="sm" listStyleType="disc">
          {sentences.map((sentence) => (
            <Box as="li" key={sentence} display="list-item">
              {sentence}
            </Box>
          ))}
        </Stack>
      )}
    </Panel>
  );
}
