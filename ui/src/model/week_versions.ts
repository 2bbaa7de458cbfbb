// The versions that have to do with a week.
import type { ModelDetails, VersionLineage } from "../documents/types";
import { findMonday, formatName } from "../format";
import { findDay } from "./timeline/axis";

export interface WeekVersion {
  lineage: VersionLineage;
  /** What the version has to do with the week. */
  roles: string[];
}

/** List the versions of a week: what happened to them, whether they scored its rows, and whether drift was decided about
 * them. Sorted by number. */
export function listWeekVersions(
  { events, lineages, drift_weeks: drift, summary }: ModelDetails,
  week: string,
): WeekVersion[] {
  const roles = new Map<string, Set<string>>();
  const add = (version: string, role: string) =>
    version && roles.set(version, (roles.get(version) ?? new Set()).add(role));
  for (const event of events.filter((each) => findMonday(findDay(each)) === week)) {
    add(event.version, formatName(event.kind));
    if (event.to_version !== event.version) add(event.to_version, "became champion");
  }
  const performance = summary.performance?.weeks.find((each) => each.week === week);
  for (const version of performance?.versions ?? []) add(version, "scored rows of this week");
  const decisions = drift.find((each) => each.week === week)?.decisions ?? [];
  for (const { version } of decisions) add(version, "monitored for drift");
  return (lineages ?? [])
    .filter(({ version }) => roles.has(version))
    .map((lineage) => ({ lineage, roles: [...(roles.get(lineage.version) ?? [])] }));
}
