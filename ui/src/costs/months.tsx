// The costs of each month.
import { Box, Flex, HStack, Text } from "@chakra-ui/react";
import * as Plot from "@observablehq/plot";
import { useMemo } from "react";
import { Chart, ChartTable, COLORS } from "../charts/chart";
import type { CostDocument, MonthCost } from "../documents/types";
import { formatUsd } from "../format";
import { EmptyNote, Panel } from "../widgets/panel";

const MAX_MODELS = 5;
const OTHERS = "others";
const SHADES = ["blue.700", "blue.500", "blue.300", "orange.500", "orange.300"].map(
  (shade) => `var(--chakra-colors-${shade.replace(".", "-")})`,
);

interface Part {
  month: string;
  model: string;
  usd: number;
}

const sumUsd = (row: MonthCost): number => row.jobs_usd + row.endpoints_usd;

/** Return the models with the largest costs, and the sum of each model and month. All other models are one sum. */
function createParts(months: MonthCost[]): { names: string[]; parts: Part[] } {
  const totals = new Map<string, number>();
  for (const row of months) totals.set(row.model, (totals.get(row.model) ?? 0) + sumUsd(row));
  const largest = [...totals]
    .filter(([model]) => model)
    .sort((a, b) => b[1] - a[1])
    .slice(0, MAX_MODELS);
  const names = largest.map(([model]) => model);
  const sums = new Map<string, Part>();
  for (const row of months) {
    const model = names.includes(row.model) ? row.model : OTHERS;
    const part = sums.get(`${row.month} ${model}`) ?? { month: row.month, model, usd: 0 };
    sums.set(`${row.month} ${model}`, { ...part, usd: part.usd + sumUsd(row) });
  }
  const hasOthers = [...sums.values()].some(({ model }) => model === OTHERS);
  return { names: hasOthers ? [...names, OTHERS] : names, parts: [...sums.values()] };
}

const chooseColor = (names: string[], model: string): string =>
  model === OTHERS ? COLORS.gray : (SHADES[names.indexOf(model)] ?? COLORS.gray);

/** Draw the costs of the last months, a bar for each month, by model. */
export function MonthChart({ costs }: { costs: CostDocument }) {
  const { names, parts } = useMemo(() => createParts(costs.months), [costs.months]);
  const build = useMemo(() => {
    const rank = (part: Part) => names.indexOf(part.model);
    const months = [...new Set(parts.map(({ month }) => month))].sort();
    return (width: number): Plot.PlotOptions => ({
      height: 240,
      marginLeft: 44,
      marginTop: 20,
      marginBottom: 24,
      x: {
        type: "band",
        label: null,
        tickSize: 0,
        domain: months,
        ticks: months.filter((_, index) => width > 460 || index % 3 === 0),
        tickFormat: (month: string) => month.slice(2),
      },
      y: { label: "USD", ticks: 5, labelAnchor: "top", labelArrow: "none" },
      color: { type: "identity" },
      marks: [
        Plot.gridY({ stroke: COLORS.line, strokeOpacity: 1, ticks: 5 }),
        Plot.barY(
          parts,
          Plot.stackY(
            { order: rank },
            { x: "month", y: "usd", fill: (part: Part) => chooseColor(names, part.model), inset: 0.5 },
          ),
        ),
        Plot.tip(
          parts,
          Plot.pointer(
            Plot.stackY(
              { order: rank },
              {
                x: "month",
                y: "usd",
                title: (part: Part) => `${part.model}\n${part.month}: ${formatUsd(part.usd)} USD`,
                fill: COLORS.panel,
              },
            ),
          ),
        ),
      ],
    });
  }, [names, parts]);
  return (
    <Panel title="Costs by month" note="Jobs and endpoints, USD, by model">
      {parts.length === 0 ? (
        <EmptyNote>Nothing was spent yet.</EmptyNote>
      ) : (
        <>
          <Chart label={`Costs of the last months by model: ${names.join(", ")}`} build={build} />
          <Flex wrap="wrap" gap={3} mt={1} fontSize="xs" color="fg.muted">
            {names.map((name) => (
              <HStack key={name} gap={1}>
                <Box width="10px" height="10px" style={{ background: chooseColor(names, name) }} />
                <Text>{name}</Text>
              </HStack>
            ))}
          </Flex>
          <ChartTable
            label="costs"
            rows={costs.months.toReversed()}
            columns={[
              { title: "Month", render: (row) => row.month },
              { title: "Model", render: (row) => row.model || "none" },
              { title: "Project", render: (row) => row.project || "none" },
              { title: "Jobs, USD", isNumber: true, render: (row) => formatUsd(row.jobs_usd, 4) },
              { title: "Endpoints, USD", isNumber: true, render: (row) => formatUsd(row.endpoints_usd, 4) },
              { title: "Saved, USD", isNumber: true, render: (row) => formatUsd(row.saved_usd, 4) },
            ]}
          />
        </>
      )}
    </Panel>
  );
}
