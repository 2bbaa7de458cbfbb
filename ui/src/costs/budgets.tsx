// The budgets of the projects.
import { Box, Flex, Stack, Text } from "@chakra-ui/react";
import type { CostDocument } from "../documents/types";
import { formatBudget, formatPercent, formatUsd } from "../format";
import { Budget } from "../widgets/budget";
import { EmptyNote, Panel, SmallText } from "../widgets/panel";

/** Show how much of each budget is spent. */
export function Budgets({ costs }: { costs: CostDocument }) {
  return (
    <Panel
      title={`Budgets of ${costs.month}`}
      note="Spent (dark), and expected cost of running endpoints until the end of the month (light), USD"
    >
      {costs.budgets.length === 0 && (
        <EmptyNote>There are no costs and no budgets. Section `budget` of params.yaml sets one.</EmptyNote>
      )}
      <Stack gap={3} fontSize="sm">
        {costs.budgets.map(({ project, month_usd: spent, running_usd: planned, budget_usd: budget }) => {
          const name = project || "no project";
          return (
            <Box key={name}>
              <Flex justify="space-between" gap={3} fontVariantNumeric="tabular-nums">
                <Text>{name}</Text>
                <Text>
                  {formatUsd(spent)}
                  {planned > 0 && ` + ${formatUsd(planned)}`}
                  {budget !== null &&
                    ` of ${formatBudget(budget)}${budget > 0 ? ` (${formatPercent((spent + planned) / budget)})` : ""}`}
                </Text>
              </Flex>
              {budget !== null ? (
                <Budget spent={spent} planned={planned} budget={budget} label={`Budget of ${name}`} />
              ) : (
                <SmallText>no budget</SmallText>
              )}
              {budget !== null && spent + planned > budget && <SmallText>Above the budget.</SmallText>}
            </Box>
          );
        })}
      </Stack>
    </Panel>
  );
}
