import assert from "node:assert/strict";
import test from "node:test";
import { load } from "./load.mjs";

const { createAxis, findWeek, locate } = await load("model/timeline/axis.ts");
const { findMonday, formatUsd, formatDuration, formatMetric } = await load("format.ts");

const event = (asOf, at = "2026-11-01T00:00:00Z") => ({ as_of: asOf, at });
const details = (weeks, events) => ({
  summary: { performance: { weeks: weeks.map((week) => ({ week })) } },
  drift_weeks: [],
  events,
});

test("the axis covers the weeks of the data, and events near them", () => {
  const { weeks } = createAxis(details(["2013-01-07", "2013-01-21"], [event("2013-01-30"), event(null)]));
  assert.deepEqual(weeks, ["2013-01-07", "2013-01-14", "2013-01-21", "2013-01-28"]);
});

test("without data, the events make the axis; without both, there is none", () => {
  assert.deepEqual(createAxis(details([], [event(null)])).weeks, ["2026-10-26"]);
  assert.equal(createAxis(details([], [])), null);
});

test("a place on the axis and its week fit together", () => {
  const axis = createAxis(details(["2013-01-07", "2013-12-30"], []));
  assert.equal(axis.weeks.length, 52);
  for (const week of axis.weeks) assert.equal(findWeek(axis, locate(axis, new Date(week), 800) + 0.01, 800), week);
  assert.equal(findWeek(axis, 10, 800), undefined);
  assert.equal(findWeek(axis, 799, 800), undefined);
});

test("numbers and dates are written in one way", () => {
  assert.equal(findMonday("2013-01-06"), "2012-12-31");
  assert.equal(findMonday("2013-01-07"), "2013-01-07");
  assert.deepEqual([formatUsd(0), formatUsd(0.0016), formatUsd(1234.5)], ["0.00", "0.0016", "1,234.50"]);
  assert.deepEqual(
    [formatDuration(59.4), formatDuration(61), formatDuration(7260)],
    ["59 s", "1 min 1 s", "2 h 1 min"],
  );
  assert.deepEqual([formatMetric(0.68352), formatMetric(4.236), formatMetric(1234)], ["0.684", "4.24", "1,234"]);
});
