// The chart of the events of a model.
import * as Plot from "@observablehq/plot";
import { useMemo } from "react";
import { Chart, ChartTable, COLORS } from "../../charts/chart";
import type { ModelDetails } from "../../documents/types";
import { formatDay, formatNumber } from "../../format";
import { type Axis, MARGIN_LEFT, MARGIN_RIGHT } from "./axis";
import { createDots, createPeriods, LANES } from "./lanes";

/** Draw the events of a model, each kind in a lane. */
export function History({ details, axis }: { details: ModelDetails; axis: Axis }) {
  const { dots, build } = useMemo(() => {
    const dots = createDots(details, axis);
    const periods = createPeriods(details, axis);
    const build = (): Plot.PlotOptions => ({
      height: 24 * LANES.length + 40,
      marginLeft: MARGIN_LEFT,
      marginRight: MARGIN_RIGHT,
      marginTop: 36,
      marginBottom: 4,
      x: { type: "utc", domain: axis.domain, axis: "top", label: null, tickSize: 3 },
      y: { type: "band", domain: [...LANES], label: null, tickSize: 0, padding: 0.2 },
      marks: [
        Plot.gridY({ stroke: COLORS.line, strokeOpacity: 1 }),
        Plot.barX(periods, {
          x1: "from",
          x2: "to",
          y: () => "champion",
          fill: COLORS.gray,
          fillOpacity: 0.55,
          inset: 0.5,
        }),
        Plot.text(periods, {
          x: (period) => new Date((+period.from + +period.to) / 2),
          y: () => "champion",
          text: (period) => (+period.to - +period.from > 12 * 86_400_000 ? period.version : ""),
          fill: COLORS.strong,
        }),
        Plot.dot(dots, {
          x: "day",
          y: "lane",
          symbol: "symbol",
          rotate: (dot) => dot.rotate ?? 0,
          stroke: "color",
          fill: "color",
          fillOpacity: 0.35,
          r: 4,
          strokeWidth: 1.6,
        }),
        Plot.tip(dots, Plot.pointer({ x: "day", y: "lane", title: "title", fill: COLORS.panel, lineWidth: 32 })),
      ],
      symbol: { type: "identity" },
      color: { type: "identity" },
    });
    return { dots, build };
  }, [details, axis]);
  return <Chart label={`History of the model: ${formatNumber(dots.length, "event")}`} build={build} />;
}

/** Offer what the chart shows as a table, newest first. */
export function HistoryTable({ details, axis }: { details: ModelDetails; axis: Axis }) {
  const rows = useMemo(() => {
    const dots = createDots(details, axis).map(({ day, lane, title }) => ({ day, lane, text: describeDot(title) }));
    const periods = createPeriods(details, axis).map(({ version, from, to }) => {
      const text = `version ${version}, up to ${to < axis.domain[1] ? formatDay(to) : "the end of the chart"}`;
      return { day: from, lane: "champion", text };
    });
    return [...dots, ...periods].sort((a, b) => +b.day - +a.day);
  }, [details, axis]);
  return (
    <ChartTable
      label="history"
      rows={rows}
      columns={[
        { title: "Day", render: (row) => formatDay(row.day) },
        { title: "Row of the chart", render: (row) => row.lane },
        { title: "What happened", wraps: true, render: (row) => row.text },
      ]}
    />
  );
}

/** Return the text of a dot without its day, in a line. */
const describeDot = (title: string): string => title.replace(/^[^:]*: /, "").replaceAll("\n", ". ");
