import assert from "node:assert/strict";
import test from "node:test";
import { load } from "./load.mjs";

const { listWeekVersions } = await load("model/week_versions.ts");

const event = (asOf, kind, version, to = "") => ({
  as_of: asOf,
  at: `${asOf}T00:00:00Z`,
  kind,
  version,
  to_version: to,
});
const details = {
  summary: { performance: { weeks: [{ week: "2013-01-14", versions: ["1"] }] } },
  drift_weeks: [{ week: "2013-01-14", decisions: [{ version: "2" }] }],
  events: [
    event("2013-01-07", "judged", "1"),
    event("2013-01-13", "promoted", "1", "1"),
    event("2013-01-21", "rolled_back", "2", "1"),
    event("2013-01-22", "held_back", ""),
    event("2013-01-22", "judged", "9"),
  ],
  lineages: [{ version: "1" }, { version: "2" }],
};
const list = (week, of = details) =>
  listWeekVersions(of, week).map(({ lineage, roles }) => [lineage.version, ...roles].join(" | "));

test("a week has the versions of its events, rows and decisions, each with the reason", () => {
  assert.deepEqual(list("2013-01-07"), ["1 | judged | promoted"]);
  assert.deepEqual(list("2013-01-14"), ["1 | scored rows of this week", "2 | monitored for drift"]);
  assert.deepEqual(list("2013-01-21"), ["1 | became champion", "2 | rolled back"]);
});

test("a week without them has no version, and a document of an older Leeway has no lineages", () => {
  assert.deepEqual(list("2013-01-28"), []);
  assert.deepEqual(list("2013-01-07", { ...details, lineages: undefined }), []);
});
