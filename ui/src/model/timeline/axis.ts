// The axis of time, which all charts of a model share.
import type { ModelDetails, TimelineEvent } from "../../documents/types";
import { addDays, findMonday, formatDay } from "../../format";

export const MARGIN_LEFT = 96;
export const MARGIN_RIGHT = 12;
const MAX_WEEKS = 54;

export interface Axis {
  /** Mondays of all weeks, oldest first. */
  weeks: string[];
  /** Midnight that begins the first week, and midnight that ends the last one. */
  domain: [Date, Date];
}

/** Return the day at which the charts show an event: its as-of date, or else the date at which it was recorded. */
export const findDay = (event: TimelineEvent): string => event.as_of ?? formatDay(event.at);

/** Return the year of weeks that the charts show: up to the newest week of the data, or the newest event without data.
 * Null if there is neither. */
export function createAxis({ summary, drift_weeks: driftWeeks, events }: ModelDetails): Axis | null {
  const dataWeeks = [...(summary.performance?.weeks ?? []), ...driftWeeks].map(({ week }) => week).sort();
  const eventDays = events.map(findDay).sort();
  const days =
    dataWeeks.length > 0 ? [...dataWeeks, ...eventDays.filter((day) => isNear(day, dataWeeks))].sort() : eventDays;
  const [first, last] = [days[0], days.at(-1)];
  if (first === undefined || last === undefined) return null;
  const end = findMonday(last);
  const weeks: string[] = [];
  for (let week = end; week >= findMonday(first) && weeks.length < MAX_WEEKS; week = formatDay(addDays(week, -7))) {
    weeks.unshift(week);
  }
  return { weeks, domain: [new Date(weeks[0] ?? end), addDays(end, 7)] };
}

/** Return whether a day is in the weeks of the data or at most six weeks later. The axis has no later days. */
const isNear = (day: string, dataWeeks: string[]): boolean =>
  day >= (dataWeeks[0] ?? "") && day <= formatDay(addDays(dataWeeks.at(-1) ?? day, 42));

/** Return whether the axis has a day. */
export const hasDay = ({ domain }: Axis, day: string): boolean =>
  new Date(day) >= domain[0] && new Date(day) < domain[1];

/** Return the distance of a moment from the left, in pixels. */
export function locate({ domain: [first, last] }: Axis, moment: Date, width: number): number {
  const share = (moment.getTime() - first.getTime()) / (last.getTime() - first.getTime());
  return MARGIN_LEFT + share * (width - MARGIN_LEFT - MARGIN_RIGHT);
}

/** Return the week at a distance from the left; undefined outside of the axis. */
export function findWeek(axis: Axis, pixels: number, width: number): string | undefined {
  const share = (pixels - MARGIN_LEFT) / (width - MARGIN_LEFT - MARGIN_RIGHT);
  return axis.weeks[Math.floor(share * axis.weeks.length)];
}
