// What was known of the data of a week when the week had ended.
import { formatState } from "../data/states";
import type { EarlierValidation, PartitionState } from "../documents/types";
import { addDays, countWords, formatDay, formatMoment } from "../format";

/** The last validation of a partition up to the end of a day. */
export interface KnownValidation {
  at: string;
  result: string;
  failures: string[];
  /** Whether all rows were published. */
  isGood: boolean;
  /** Whether the partition was not validated again. */
  isLast: boolean;
}

const RESULTS: Record<EarlierValidation["outcome"], string> = {
  passed: "published",
  warned: "warnings failed",
  refused: "refused",
};

/** Return the day whose end the panel of a week looks back from: the day after the week. On it, the last day of the week is
 * validated. */
export const findKnownDay = (week: string): string => formatDay(addDays(week, 7));

/** Return the last validation of a partition up to the end of a day; undefined if there was none. */
export function findKnown(partition: PartitionState, day: string): KnownValidation | undefined {
  const { state, failures, validated_at: lastAt, earlier_validations: earlier = [] } = partition;
  const isKnown = (at: string) => new Date(at) < addDays(day, 1);
  if (lastAt !== null && isKnown(lastAt)) {
    return { at: lastAt, result: formatState(state), failures, isGood: state === "published", isLast: true };
  }
  const known = earlier.findLast(({ at }) => isKnown(at));
  return (
    known && {
      at: known.at,
      result: RESULTS[known.outcome],
      failures: known.failures,
      isGood: known.outcome === "passed",
      isLast: false,
    }
  );
}

/** Describe in a sentence what was known of partitions at the end of a day. */
export function describeKnown(partitions: PartitionState[], day: string): string {
  const known = partitions.map((partition) => findKnown(partition, day)?.result);
  if (known.some((result) => result !== undefined)) {
    return `On ${day}, the day after the week, this was known: ${countWords(known.map((result) => result ?? "not validated yet"))}.`;
  }
  const first = partitions.flatMap(listTimes).sort()[0];
  return `On ${day}, the day after the week, nothing was known: ${
    first === undefined ? "no validation is recorded" : `the first validation was at ${formatMoment(first)}`
  }.`;
}

const listTimes = ({ validated_at: at, earlier_validations: earlier = [] }: PartitionState): string[] =>
  [...earlier.map((validation) => validation.at), at ?? ""].filter(Boolean);

/** Select the partitions of which something is or was wrong: those not published with all their rows, now or at the end of
 * the day. */
export const selectFindings = (partitions: PartitionState[], day: string): PartitionState[] =>
  partitions.filter((partition) => partition.state !== "published" || findKnown(partition, day)?.isGood === false);
