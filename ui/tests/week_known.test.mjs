import assert from "node:assert/strict";
import test from "node:test";
import { load } from "./load.mjs";

const { describeKnown, findKnown, findKnownDay, selectFindings } = await load("model/week_known.ts");

const MONDAY = "2013-03-04";
const DAY = findKnownDay(MONDAY);

/** Return a partition with its last validation, and earlier ones as pairs of time and outcome. */
const make = (state, at, ...earlier) => ({
  partition: "2013-03-05",
  state,
  failures: state === "published" ? [] : [`last ${state}`],
  validated_at: at,
  earlier_validations: earlier.map(([time, outcome]) => ({ at: time, outcome, failures: [outcome] })),
});

test("the day is the one after the week, up to its end", () => {
  assert.equal(DAY, "2013-03-11");
  assert.equal(findKnown(make("refused", "2013-03-11T23:59:59.999999Z"), DAY).result, "refused");
  assert.equal(findKnown(make("refused", "2013-03-12T00:00:00Z"), DAY), undefined);
  assert.equal(findKnown(make("not_validated", null), DAY), undefined);
});

test("a partition that was not validated again has its state of now", () => {
  const known = findKnown(make("quarantined", "2013-03-06T01:00:00Z", ["2013-03-05T01:00:00Z", "refused"]), DAY);
  assert.deepEqual(
    [known.result, known.failures, known.isGood, known.isLast],
    ["quarantined", ["last quarantined"], false, true],
  );
});

test("a partition that was validated again later has the last result before that", () => {
  const earlier = [
    ["2013-03-06T01:00:00Z", "passed"],
    ["2013-03-08T01:00:00Z", "refused"],
    ["2013-03-20T01:00:00Z", "warned"],
  ];
  const known = findKnown(make("published", "2013-04-01T01:00:00Z", ...earlier), DAY);
  assert.deepEqual([known.result, known.failures, known.isGood, known.isLast], ["refused", ["refused"], false, false]);
  assert.equal(
    findKnown(make("published", "2013-04-01T01:00:00Z", ...earlier), "2013-03-21").result,
    "warnings failed",
  );
  assert.equal(findKnown(make("stale", "2013-04-01T01:00:00Z", ...earlier), "2013-03-07").result, "published");
});

test("a document of an earlier version of Leeway has only the last validations", () => {
  const { earlier_validations: _, ...partition } = make("published", "2013-04-01T01:00:00Z");
  assert.equal(findKnown(partition, DAY), undefined);
  assert.equal(findKnown({ ...partition, validated_at: "2013-03-06T01:00:00Z" }, DAY).result, "published");
});

test("a sentence counts what was known, or says since when something is", () => {
  const good = make("published", "2013-03-06T01:00:00Z");
  const late = make("published", "2013-04-02T01:00:00Z");
  const corrected = make("published", "2013-04-01T01:00:00Z", ["2013-03-06T01:00:00Z", "refused"]);
  const start = "On 2013-03-11, the day after the week,";
  assert.equal(
    describeKnown([good, good, late, corrected], DAY),
    `${start} this was known: 2 published, 1 not validated yet, 1 refused.`,
  );
  assert.equal(
    describeKnown([late, make("published", "2013-04-01T01:00:00Z")], DAY),
    `${start} nothing was known: the first validation was at 2013-04-01 01:00 UTC.`,
  );
  assert.equal(
    describeKnown([make("not_validated", null)], DAY),
    `${start} nothing was known: no validation is recorded.`,
  );
  assert.deepEqual(selectFindings([good, late, corrected, make("stale", "2013-04-01T01:00:00Z")], DAY).length, 2);
});
