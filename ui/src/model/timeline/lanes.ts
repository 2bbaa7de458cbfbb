// The events of a model, by the lane in which the chart shows them.
import type { ModelDetails, TimelineEvent } from "../../documents/types";
import { formatName } from "../../format";
import { COLORS } from "../../charts/chart";
import { type Axis, findDay, hasDay } from "./axis";

export const LANES = ["champion", "changes", "trainings", "verdicts", "held back", "drift", "endpoint"] as const;
export type Lane = (typeof LANES)[number];

export interface Dot {
  day: Date;
  lane: Lane;
  title: string;
  color: string;
  symbol: "circle" | "triangle" | "times" | "square" | "diamond2";
  /** Degrees by which the symbol is turned. */
  rotate?: number;
}

export interface Period {
  version: string;
  from: Date;
  to: Date;
}

type Look = Pick<Dot, "lane" | "color" | "symbol" | "rotate">;

const BAD = new Set(["failed", "not_passed", "rejected", "deployment_failed", "shadow_failed"]);
const LOOKS: Record<string, Look> = {
  promoted: { lane: "changes", color: COLORS.blue, symbol: "triangle" },
  alias_moved: { lane: "changes", color: COLORS.blue, symbol: "triangle" },
  rolled_back: { lane: "changes", color: COLORS.red, symbol: "triangle", rotate: 180 },
  retired: { lane: "changes", color: COLORS.red, symbol: "times" },
  ended: { lane: "trainings", color: COLORS.green, symbol: "circle" },
  judged: { lane: "verdicts", color: COLORS.green, symbol: "circle" },
  approved: { lane: "verdicts", color: COLORS.green, symbol: "diamond2" },
  rejected: { lane: "verdicts", color: COLORS.red, symbol: "diamond2" },
  held_back: { lane: "held back", color: COLORS.orange, symbol: "times" },
  reset: { lane: "held back", color: COLORS.blue, symbol: "circle" },
  deployed: { lane: "endpoint", color: COLORS.blue, symbol: "triangle" },
  undeployed: { lane: "endpoint", color: COLORS.gray, symbol: "times" },
};
const OTHER: Look = { lane: "endpoint", color: COLORS.orange, symbol: "circle" };

/** Return the dots of the chart. A start of a training is shown only until the training has ended. */
export function createDots({ events, drift_weeks: driftWeeks }: ModelDetails, axis: Axis): Dot[] {
  const endedRuns = new Set(events.filter((event) => event.kind === "ended").map((event) => event.run));
  const visibleEvents = events.filter(
    (event) => event.kind !== "registered" && !(event.kind === "started" && endedRuns.has(event.run)),
  );
  const dots = visibleEvents.filter((event) => hasDay(axis, findDay(event))).map(createDot);
  const decisions = driftWeeks.flatMap((week) => week.decisions).filter((decision) => decision.outcome === "drift");
  const alarms = decisions.map((decision): Dot => {
    const title = `${decision.day}: drift\n${decision.reasons}`;
    return { day: new Date(decision.day), lane: "drift", title, color: COLORS.orange, symbol: "square" };
  });
  return [...dots, ...alarms.filter(({ day }) => day >= axis.domain[0] && day < axis.domain[1])];
}

function createDot(event: TimelineEvent): Dot {
  const started: Look = { lane: "trainings", color: COLORS.gray, symbol: "circle" };
  const look = event.kind === "started" ? started : (LOOKS[event.kind] ?? OTHER);
  const isBad = BAD.has(event.outcome) || BAD.has(event.kind);
  const symbol = isBad && look.symbol === "circle" ? "times" : look.symbol;
  return {
    ...look,
    day: new Date(findDay(event)),
    symbol,
    color: isBad ? COLORS.red : look.color,
    title: describeEvent(event),
  };
}

/** Describe an event in two lines. */
export function describeEvent(event: TimelineEvent): string {
  const version = event.version && ` version ${event.version}`;
  const result = [event.outcome, event.guard, event.trigger].filter(Boolean).map(formatName).join(", ");
  return `${findDay(event)}: ${formatName(event.kind)}${version}${result && ` (${result})`}\n${event.why}`.trim();
}

/** Return which version was champion from when to when. */
export function createPeriods({ events, summary }: ModelDetails, axis: Axis): Period[] {
  const changes = events.filter((event) => event.to_version && event.to_version !== event.from_version);
  const periods: Period[] = [];
  const first = changes[0];
  if (first?.from_version) periods.push({ version: first.from_version, from: axis.domain[0], to: axis.domain[1] });
  if (!first && summary.champion) periods.push({ version: summary.champion, from: axis.domain[0], to: axis.domain[1] });
  for (const change of changes) {
    const day = new Date(findDay(change));
    const last = periods.at(-1);
    if (last) last.to = day;
    periods.push({ version: change.to_version, from: day, to: axis.domain[1] });
  }
  const clip = (moment: Date) => new Date(Math.min(Math.max(+moment, +axis.domain[0]), +axis.domain[1]));
  return periods
    .map(({ version, from, to }) => ({ version, from: clip(from), to: clip(to) }))
    .filter((period) => period.from < period.to);
}
