// The champion beside the challenger.
import { Box, Flex, SimpleGrid, Text } from "@chakra-ui/react";
import type { ModelDetails, VersionFacts } from "../documents/types";
import { formatMoment } from "../format";
import { ExternalLink } from "../links";
import { Disclosure } from "../widgets/disclosure";
import { EmptyNote, Panel, SmallText } from "../widgets/panel";
import { Checks } from "./checks";
import { Lineage } from "./lineage";

/** Compare the champion with the challenger. */
export function Versions({ details }: { details: ModelDetails }) {
  const { champion, challenger, summary } = details;
  return (
    <Panel
      title="Champion and challenger"
      actions={<ExternalLink address={details.evaluations_url}>All evaluations</ExternalLink>}
    >
      <SimpleGrid columns={{ base: 1, sm: 2 }} gap={4} fontSize="sm">
        <Version title="Champion" facts={champion} details={details} missing="No version is champion.">
          {summary.champion_since && <SmallText>champion since {formatMoment(summary.champion_since)}</SmallText>}
        </Version>
        <Version
          title="Challenger"
          facts={challenger}
          details={details}
          missing="No newer version has passed the gate."
        />
      </SimpleGrid>
      <Checks champion={champion} challenger={challenger} />
    </Panel>
  );
}

interface VersionProps {
  title: string;
  facts: VersionFacts | null;
  details: ModelDetails;
  missing: string;
  children?: React.ReactNode;
}

function Version({ title, facts, details, missing, children }: VersionProps) {
  const { model } = details.summary;
  if (!facts) {
    return (
      <Box>
        <Text fontSize="xs" color="fg.muted" fontWeight="medium">
          {title}
        </Text>
        <EmptyNote>{missing}</EmptyNote>
      </Box>
    );
  }
  const lineage = details.lineages?.find(({ version }) => version === facts.version);
  return (
    <Box minW={0}>
      <Text fontSize="xs" color="fg.muted" fontWeight="medium">
        {title}
      </Text>
      <Text fontWeight="semibold">version {facts.version}</Text>
      {facts.as_of && <SmallText>trained as of {facts.as_of}</SmallText>}
      {children}
      <Text mt={1} overflowWrap="anywhere">
        {[facts.outcome, facts.reason].filter(Boolean).join(": ")}
      </Text>
      <Flex gap={3} mt={1}>
        <ExternalLink address={facts.report_url}>Report</ExternalLink>
        <ExternalLink address={facts.mlflow_url}>MLflow</ExternalLink>
      </Flex>
      {lineage && (
        <Disclosure title={`Lineage of version ${facts.version}`}>
          {() => <Lineage model={model} lineage={lineage} />}
        </Disclosure>
      )}
    </Box>
  );
}
