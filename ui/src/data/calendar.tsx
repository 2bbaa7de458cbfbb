// The calendar of the partitions: a row of weeks for each year, or a row of months.
import * as Plot from "@observablehq/plot";
import { useMemo } from "react";
import { Chart, COLORS } from "../charts/chart";
import type { DatasetDetails, PartitionState } from "../documents/types";
import { formatNumber } from "../format";
import { findWorst, formatState, ORDER, STATES } from "./states";

const WEEKDAYS = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const DAY_MS = 86_400_000;

export interface Cell {
  day: string;
  partitions: PartitionState[];
  look: (typeof STATES)[keyof typeof STATES];
  x: number;
  y: string;
}

/** Return the cells of a year: one for each day, or month, that has partitions. */
function createCells(partitions: PartitionState[], unit: DatasetDetails["unit"]): Cell[] {
  const days = Map.groupBy(partitions, ({ day }) => day);
  return [...days].map(([day, group]) => {
    const date = new Date(day);
    const first = new Date(Date.UTC(date.getUTCFullYear(), 0, 1));
    const offset = (first.getUTCDay() + 6) % 7;
    const week = Math.floor(((+date - +first) / DAY_MS + offset) / 7);
    const place =
      unit === "month" ? { x: date.getUTCMonth(), y: "" } : { x: week, y: WEEKDAYS[(date.getUTCDay() + 6) % 7] ?? "" };
    return { day, partitions: group, look: STATES[findWorst(group)], ...place };
  });
}

interface YearProps {
  year: string;
  partitions: PartitionState[];
  unit: DatasetDetails["unit"];
  selected: string;
  onSelect: (day: string) => void;
}

/** Draw the calendar of a year. */
export function Year({ year, partitions, unit, selected, onSelect }: YearProps) {
  const build = useMemo(() => {
    const cells = createCells(partitions, unit);
    const columns = unit === "month" ? 12 : 54;
    const startOfMonth = (x: number) =>
      unit === "month" ? MONTHS[x] : MONTHS.find((_, month) => findWeekOfMonth(year, month) === x);
    return (width: number): Plot.PlotOptions => ({
      height: unit === "month" ? 50 : 7 * Math.min(15, (width - 40) / columns) + 22,
      marginLeft: 36,
      marginRight: 0,
      marginTop: 18,
      marginBottom: 2,
      padding: 0.08,
      x: {
        type: "band",
        domain: Array.from({ length: columns }, (_, x) => x),
        axis: "top",
        label: null,
        tickSize: 0,
        tickFormat: (x) => startOfMonth(x) ?? "",
      },
      y: {
        type: "band",
        domain: unit === "month" ? [""] : WEEKDAYS,
        label: null,
        tickSize: 0,
        tickFormat: (day) => (["Mon", "Wed", "Fri"].includes(day) ? day : ""),
      },
      color: { type: "identity" },
      opacity: { type: "identity" },
      marks: [
        Plot.cell(cells, {
          x: "x",
          y: "y",
          fill: (cell: Cell) => cell.look.color,
          fillOpacity: (cell: Cell) => cell.look.opacity,
          rx: 1.5,
        }),
        Plot.text(cells, {
          x: "x",
          y: "y",
          text: (cell: Cell) => cell.look.letter,
          fill: COLORS.strong,
          fontSize: 9,
          fontWeight: 600,
        }),
        Plot.cell(
          cells.filter(({ day }) => day === selected),
          { x: "x", y: "y", stroke: COLORS.strong, strokeWidth: 1.5, fill: "none", rx: 1.5 },
        ),
        Plot.tip(cells, Plot.pointer({ x: "x", y: "y", title: describeCell, fill: COLORS.panel })),
      ],
    });
  }, [year, partitions, unit, selected]);
  const counts = ORDER.map(
    (state) => `${partitions.filter((each) => each.state === state).length} ${formatState(state)}`,
  ).join(", ");
  return (
    <Chart label={`Partitions of ${year}: ${counts}`} build={build} onSelect={(cell: Cell) => onSelect(cell.day)} />
  );
}

function findWeekOfMonth(year: string, month: number): number {
  const first = Date.UTC(+year, 0, 1);
  const offset = (new Date(first).getUTCDay() + 6) % 7;
  return Math.ceil(((Date.UTC(+year, month, 1) - first) / DAY_MS + offset) / 7);
}

function describeCell({ day, partitions }: Cell): string {
  const lines = partitions.slice(0, 4).map(({ partition, state, rows, failures }) => {
    const name = partition === day ? "" : `${partition}: `;
    return [`${name}${formatState(state)}, ${formatNumber(rows, "row")}`, ...failures].join("\n");
  });
  return [day, ...lines].join("\n");
}
