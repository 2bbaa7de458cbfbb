// How much of a budget is spent.
import { formatPercent } from "../format";
import { Bar } from "./bar";

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
  return <Bar share={share} whole={whole} color={color} text={text} />;
}
