// How the states of partitions look, and what they mean.
import { COLORS } from "../charts/chart";
import type { PartitionState } from "../documents/types";
import { countWords } from "../format";

export type State = PartitionState["state"];

export interface StateLook {
  /** Letter in the calendar, so that no state is shown by a color alone; published days have none. */
  letter: string;
  color: string;
  opacity: number;
  meaning: string;
}

export const STATES: Record<State, StateLook> = {
  published: { letter: "", color: COLORS.green, opacity: 0.3, meaning: "all rows" },
  quarantined: { letter: "Q", color: COLORS.orange, opacity: 0.6, meaning: "published, some rows are in quarantine" },
  not_validated: { letter: "N", color: COLORS.gray, opacity: 0.8, meaning: "published, never validated" },
  stale: { letter: "S", color: COLORS.purple, opacity: 0.55, meaning: "refused, earlier rows are still published" },
  refused: { letter: "R", color: COLORS.red, opacity: 0.75, meaning: "not published" },
};

/** All states, the most serious last. */
export const ORDER = Object.keys(STATES) as State[];

/** Return the most serious state of some partitions. */
export const findWorst = (partitions: PartitionState[]): State =>
  ORDER[Math.max(0, ...partitions.map(({ state }) => ORDER.indexOf(state)))] ?? "published";

/** Return the words for a state: "not validated" for not_validated. */
export function formatState(state: State): string {
  return state.replace("_", " ");
}

/** Count partitions by state, in words: "5 published, 2 refused". */
export const countStates = (partitions: PartitionState[]): string =>
  countWords(partitions.map(({ state }) => formatState(state)));
