// The chart of the weekly performance of a model.
import * as Plot from "@observablehq/plot";
import { useMemo } from "react";
import { Chart, COLORS } from "../../charts/chart";
import type { ModelDetails, WeekPerformance } from "../../documents/types";
import { addDays, formatInterval, formatMetric } from "../../format";
import { type Axis, MARGIN_LEFT, MARGIN_RIGHT } from "./axis";

/** Days from the beginning of a week to its middle. */
const HALF_WEEK = 3.5;

/** Draw the metric of each week with its interval. A week without labels is a gap. */
export function PerformanceChart({ details, axis }: { details: ModelDetails; axis: Axis }) {
  const { performance } = details.summary;
  const { label, build } = useMemo(() => {
    const known = new Map((performance?.weeks ?? []).map((week) => [week.week, week]));
    const points = axis.weeks.map((week) => ({ middle: addDays(week, HALF_WEEK), week: known.get(week) }));
    const metric = performance?.metric ?? "metric";
    const read = (name: "value" | "low" | "high") => (point: (typeof points)[number]) => point.week?.[name] ?? NaN;
    const build = (): Plot.PlotOptions => ({
      height: 170,
      marginLeft: MARGIN_LEFT,
      marginRight: MARGIN_RIGHT,
      marginTop: 20,
      marginBottom: 6,
      x: { type: "utc", domain: axis.domain, axis: null },
      y: {
        label: `${metric}, 95 % interval (${performance?.higher_is_better ? "higher" : "lower"} is better)`,
        nice: true,
        ticks: 5,
        labelAnchor: "top",
        labelArrow: "none",
      },
      marks: [
        Plot.gridY({ stroke: COLORS.line, strokeOpacity: 1, ticks: 5 }),
        Plot.areaY(points, { x: "middle", y1: read("low"), y2: read("high"), fill: COLORS.blue, fillOpacity: 0.16 }),
        Plot.lineY(points, { x: "middle", y: read("value"), stroke: COLORS.blue, strokeWidth: 1.6 }),
        Plot.dot(points, { x: "middle", y: read("value"), fill: COLORS.blue, r: 2.2 }),
        Plot.tip(
          points.filter((point) => point.week),
          Plot.pointerX({
            x: "middle",
            y: read("value"),
            title: (point) => point.week && describeWeek(metric, point.week),
            fill: COLORS.panel,
          }),
        ),
      ],
    });
    return { label: `Weekly ${metric} with its interval: ${known.size} weeks with labels`, build };
  }, [performance, axis]);
  return <Chart label={label} build={build} />;
}

function describeWeek(metric: string, week: WeekPerformance): string {
  const interval = formatInterval(week.low, week.high) || "too few days for an interval";
  return `week of ${week.week}\n${metric} ${formatMetric(week.value)} (${interval})\nversion ${week.versions.join(", ")}`;
}
