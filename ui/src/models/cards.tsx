// The models as cards, on a phone.
import { Box, Flex, Grid, Stack, Text } from "@chakra-ui/react";
import type { ModelSummary } from "../documents/types";
import { ViewLink } from "../links";
import { HealthBadge } from "../widgets/health";
import { Champion, Cost, DataState, Drift, Endpoints, LastPerformance } from "./parts";
import { Fact, SmallText } from "../widgets/panel";
import { ModelRuns } from "./runs";

/** Show the models as cards. */
export function ModelCards({ models }: { models: ModelSummary[] }) {
  return (
    <Stack as="ul" gap={3} listStyleType="none">
      {models.map((model) => (
        <Box as="li" key={model.model} borderWidth="1px" borderRadius="md" p={3} fontSize="sm">
          <Flex justify="space-between" gap={2} align="start">
            <Text fontWeight="semibold" overflowWrap="anywhere">
              <ViewLink to={`models/${encodeURIComponent(model.model)}`}>{model.model}</ViewLink>
            </Text>
            <HealthBadge health={model.health} />
          </Flex>
          <DataState model={model} />
          {model.reason && <SmallText>{model.reason}</SmallText>}
          <Box my={3}>
            <LastPerformance model={model} />
          </Box>
          <Grid templateColumns="1fr 1fr" gap={3}>
            <Fact title="Champion">
              <Champion model={model} />
            </Fact>
            <Fact title="Drift">
              <Drift model={model} />
            </Fact>
            <Fact title="Runs">
              <ModelRuns model={model} />
            </Fact>
            <Fact title="Endpoint">
              <Endpoints model={model} />
            </Fact>
            <Fact title="Cost of the month">
              <Cost model={model} />
            </Fact>
          </Grid>
        </Box>
      ))}
    </Stack>
  );
}
