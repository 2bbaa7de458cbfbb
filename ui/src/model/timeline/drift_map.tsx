// The heat map of the drift of each column and week.
import * as Plot from "@observablehq/plot";
import { useMemo } from "react";
import { Chart, COLORS } from "../../charts/chart";
import type { DriftWeek, ModelDetails } from "../../documents/types";
import { addDays, formatMetric } from "../../format";
import { type Axis, MARGIN_LEFT, MARGIN_RIGHT } from "./axis";

const MAX_NAME = 15;

interface Cell {
  column: string;
  from: Date;
  to: Date;
  effect: number;
}

/** Return the columns, the one with the largest effect first. */
export function sortColumns(weeks: DriftWeek[]): string[] {
  const largest = new Map<string, number>();
  for (const { effects } of weeks) {
    for (const [column, effect] of Object.entries(effects)) {
      largest.set(column, Math.max(largest.get(column) ?? 0, effect));
    }
  }
  return [...largest].sort((a, b) => b[1] - a[1]).map(([column]) => column);
}

/** Return how strong the color of an effect is: it is weakest at the bound, 1. */
const computeOpacity = (effect: number): number =>
  effect < 1 ? (1 - effect) * 0.4 : 0.3 + 0.7 * Math.min(1, effect - 1);

/** Draw the effects of the columns as multiples of their bounds: blue below the bound, red above it. */
export function DriftMap({ details, axis, columns }: { details: ModelDetails; axis: Axis; columns: string[] }) {
  const { drift_weeks: weeks } = details;
  const build = useMemo(() => {
    const cells = weeks.flatMap(({ week, effects }) =>
      columns
        .filter((column) => column in effects && axis.weeks.includes(week))
        .map((column): Cell => ({ column, from: new Date(week), to: addDays(week, 7), effect: effects[column] ?? 0 })),
    );
    return (width: number): Plot.PlotOptions => ({
      height: 15 * columns.length + 40,
      marginLeft: MARGIN_LEFT,
      marginRight: MARGIN_RIGHT,
      marginTop: 4,
      marginBottom: 36,
      x: { type: "utc", domain: axis.domain, label: null, tickSize: 3 },
      y: { type: "band", domain: columns, label: null, tickSize: 0, padding: 0, tickFormat: shortenName },
      color: { type: "identity" },
      opacity: { type: "identity" },
      marks: [
        Plot.rect(cells, {
          x1: "from",
          x2: "to",
          y: "column",
          fill: (cell: Cell) => (cell.effect < 1 ? COLORS.blue : COLORS.red),
          fillOpacity: (cell: Cell) => computeOpacity(cell.effect),
          inset: width < 500 ? 0 : 0.5,
        }),
        // A dot marks the cells above the bound, for people who do not see the difference of the colors.
        Plot.dot(
          cells.filter(({ effect }) => effect >= 1),
          { x: (cell: Cell) => addDays(cell.from, 3.5), y: "column", r: 1.4, fill: COLORS.strong },
        ),
        Plot.tip(
          cells,
          Plot.pointer({
            x: (cell: Cell) => addDays(cell.from, 3.5),
            y: "column",
            title: (cell: Cell) =>
              `${cell.column}\nweek of ${cell.from.toISOString().slice(0, 10)}\n${formatMetric(cell.effect)} of the bound`,
            fill: COLORS.panel,
          }),
        ),
      ],
    });
  }, [weeks, axis, columns]);
  const above = weeks.filter(({ effects }) => Object.values(effects).some((effect) => effect >= 1)).length;
  return (
    <Chart label={`Drift of ${columns.length} columns: ${above} weeks with a column above its bound`} build={build} />
  );
}

const shortenName = (name: string): string => (name.length > MAX_NAME ? `${name.slice(0, MAX_NAME - 1)}…` : name);
