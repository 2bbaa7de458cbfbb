// A small line without axes.
import { Box } from "@chakra-ui/react";
import type { Performance } from "../documents/types";
import { formatMetric } from "../format";
import { COLORS } from "./chart";

const WIDTH = 72;
const HEIGHT = 28;
const MARGIN = 3;

/** Draw the last weeks of a model's performance with their intervals. */
export function Sparkline({ performance }: { performance: Performance }) {
  const weeks = performance.weeks.slice(-12);
  const last = weeks.at(-1);
  const first = weeks[0];
  if (!first || !last) return null;
  const lows = weeks.map((week) => week.low ?? week.value);
  const highs = weeks.map((week) => week.high ?? week.value);
  const [low, high] = [Math.min(...lows), Math.max(...highs)];
  const x = (index: number) => MARGIN + (index / Math.max(1, weeks.length - 1)) * (WIDTH - 2 * MARGIN);
  const y = (value: number) => HEIGHT - MARGIN - ((value - low) / (high - low || 1)) * (HEIGHT - 2 * MARGIN);
  const line = weeks.map((week, index) => `${x(index)},${y(week.value)}`).join(" ");
  const upper = highs.map((value, index) => `${x(index)},${y(value)}`);
  const lower = lows.map((value, index) => `${x(index)},${y(value)}`).reverse();
  const label =
    `${performance.metric} of ${weeks.length} weeks, from ${formatMetric(first.value)} in the week of ${first.week} ` +
    `to ${formatMetric(last.value)} in the week of ${last.week}`;
  return (
    <Box asChild flexShrink={0} display="block">
      <svg role="img" aria-label={label} width={WIDTH} height={HEIGHT} viewBox={`0 0 ${WIDTH} ${HEIGHT}`}>
        <polygon points={[...upper, ...lower].join(" ")} fill={COLORS.blue} opacity="0.18" />
        <polyline points={line} fill="none" stroke={COLORS.blue} strokeWidth="1.5" />
        <circle cx={x(weeks.length - 1)} cy={y(last.value)} r="2.2" fill={COLORS.blue} />
      </svg>
    </Box>
  );
}
