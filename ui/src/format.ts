// Numbers and dates as text. All moments are UTC.

const DAY_MS = 86_400_000;

/** Format a moment as `2013-11-20 06:14 UTC`. */
export const formatMoment = (moment: string | Date | null): string =>
  moment === null ? "" : `${new Date(moment).toISOString().slice(0, 16).replace("T", " ")} UTC`;

/** Format the day of a moment as `2013-11-20`. */
export const formatDay = (moment: string | Date | null): string =>
  moment === null ? "" : new Date(moment).toISOString().slice(0, 10);

/** Return a day some days later or earlier. */
export const addDays = (day: string | Date, days: number): Date => new Date(new Date(day).getTime() + days * DAY_MS);

/** Return the Monday of the week of a day, as text. */
export function findMonday(day: string | Date): string {
  const date = new Date(formatDay(day));
  return formatDay(addDays(date, -((date.getUTCDay() + 6) % 7)));
}

/** Format a metric or an effect: three decimals below 1, fewer for larger numbers. */
export function formatMetric(value: number | null): string {
  if (value === null) return "";
  const size = Math.abs(value);
  return size < 1 ? value.toFixed(3) : size < 100 ? value.toFixed(2) : formatCount(Math.round(value));
}

/** Format an interval; empty if it is not known. */
export const formatInterval = (low: number | null, high: number | null): string =>
  low === null || high === null ? "" : `${formatMetric(low)} to ${formatMetric(high)}`;

/** Format a whole number with a separator of thousands. */
export const formatCount = (value: number): string => value.toLocaleString("en-US");

/** Format US dollars without the unit.
 * @param decimals number of decimals; by default two, or four for amounts below 0.1. In a table, give the same number for
 * all rows of a column. */
export const formatUsd = (value: number | null, decimals = value && Math.abs(value) < 0.1 ? 4 : 2): string => {
  if (value === null) return "";
  return value.toLocaleString("en-US", { minimumFractionDigits: decimals, maximumFractionDigits: decimals });
};

/** Format a share as percent. */
export const formatPercent = (share: number): string => `${Math.round(share * 100)} %`;

/** Format seconds in their two largest units, such as `2 h 5 min`. */
export function formatDuration(seconds: number): string {
  const rounded = Math.round(seconds);
  if (rounded < 60) return `${rounded} s`;
  if (rounded < 3600) return `${Math.floor(rounded / 60)} min ${rounded % 60} s`;
  return `${Math.floor(rounded / 3600)} h ${Math.floor((rounded % 3600) / 60)} min`;
}

/** Format the name of an event or of an outcome as words: `held_back` becomes `held back`. */
export const formatName = (name: string): string => name.replaceAll("_", " ");

/** Return a noun with its number, such as `1 run` or `3 runs`. */
export const formatNumber = (count: number, noun: string): string =>
  `${formatCount(count)} ${noun}${count === 1 ? "" : "s"}`;

/** Count equal words, such as `5 published, 2 refused`. */
export function countWords(words: string[]): string {
  const counts = new Map<string, number>();
  for (const word of words) counts.set(word, (counts.get(word) ?? 0) + 1);
  return [...counts].map(([word, count]) => `${formatCount(count)} ${word}`).join(", ");
}

/** Format a budget in US dollars without the unit: without decimals if it is a whole number. */
export const formatBudget = (usd: number): string => (Number.isInteger(usd) ? formatCount(usd) : formatUsd(usd));

/** Return the text with a capital letter at its beginning and a full stop at its end. */
export const formatSentence = (text: string): string =>
  text.charAt(0).toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? "" : ".");

/** Format a time for the ID of a run: `20131120T061403Z`. Milliseconds are there only if they are not 0. */
export const formatForId = (moment: string | Date): string =>
  new Date(moment).toISOString().replace(".000", "").replace(/[-:]/g, "");
