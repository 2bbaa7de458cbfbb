// The partitions of the data of a week.
import type { DatasetDetails, PartitionState } from "../documents/types";
import { addDays, findMonday, formatDay } from "../format";

/** List the partitions of a week, oldest first: its hours or days, or each month that has a day in it.
 * @param week Monday of the week. */
export function listWeekPartitions({ partitions, unit }: DatasetDetails, week: string): PartitionState[] {
  if (unit !== "month") return partitions.filter(({ day }) => findMonday(day) === week);
  const months = [week, formatDay(addDays(week, 6))].map((day) => day.slice(0, 7));
  return partitions.filter(({ day }) => months.includes(day.slice(0, 7)));
}
