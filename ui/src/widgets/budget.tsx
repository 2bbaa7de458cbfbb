// How much of a budget is spent.
import { Box } from "@chakra-ui/react";
import { formatPercent } from "../format";

interface BudgetProps {
  spent: number;
  /** Expected cost of running endpoints until the end of the month. */
  planned?: number;
  budget: number;
  label: string;
}

/** Draw a bar of the budget: what is spent, and what is planned. It is orange from 80 % on, and red above the budget. */
export function Budget({ spent, planned = 0, budget, label }: BudgetProps) {
  const share = budget > 0 ? spent / budget : 1;
  const whole = budget > 0 ? (spent + planned) / budget : 1;
  const color = whole > 1 ? "red.solid" : whole >= 0.8 ? "orange.solid" : "blue.solid";
  const text = `${label}: ${formatPercent(share)} spent${planned ? `, ${formatPercent(whole)} with running endpoints` : ""}`;
  return (
    <Box
      role="img"
      aria-label={text}
      title={text}
      height="6px"
      bg="bg.emphasized"
      borderRadius="full"
      overflow="hidden"
    >
      <Box position="relative" height="100%">
        <Box position="absolute" height="100%" bg={color} opacity={0.4} width={`${Math.min(1, whole) * 100}%`} />
        <Box position="absolute" height="100%" bg={color} width={`${Math.min(1, share) * 100}%`} />
      </Box>
    </Box>
  );
}
