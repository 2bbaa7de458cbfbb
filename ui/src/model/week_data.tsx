// The state of the data of one week.
import { Box, Text } from "@chakra-ui/react";
import { useMemo } from "react";
import { PartitionTable } from "../data/findings";
import { countStates } from "../data/states";
import { useDocument } from "../documents/read";
import type { DatasetDetails } from "../documents/types";
import { formatDay } from "../format";
import { ViewLink } from "../links";
import { EmptyNote, Fact, SmallText } from "../widgets/panel";
import { WeekFindings } from "./week_findings";
import { describeKnown, findKnownDay, selectFindings } from "./week_known";
import { listWeekPartitions } from "./week_partitions";

/** Show what was known of the partitions of a week on the day after it, and what is known of them now. */
export function WeekData({ dataset, week }: { dataset: string; week: string }) {
  const { data, error } = useDocument<DatasetDetails>(`data/${encodeURIComponent(dataset)}`);
  return (
    <Box mt={4} fontSize="sm">
      <Fact title="Data">
        {data ? (
          <Partitions details={data.document} week={week} />
        ) : (
          <EmptyNote>{error ? `The state of ${dataset} could not be read: ${error.message}` : "Loading ..."}</EmptyNote>
        )}
        <SmallText>
          <ViewLink to={`data/${encodeURIComponent(dataset)}`}>The data of {dataset}</ViewLink>
        </SmallText>
      </Fact>
    </Box>
  );
}

function Partitions({ details, week }: { details: DatasetDetails; week: string }) {
  const partitions = useMemo(() => listWeekPartitions(details, week), [details, week]);
  if (partitions.length === 0) return <EmptyNote>There is no partition of this week.</EmptyNote>;
  const day = findKnownDay(week);
  const isOver = formatDay(details.written_at) > day;
  const findings = isOver ? selectFindings(partitions, day) : partitions.filter(({ state }) => state !== "published");
  const areAllPublished = partitions.every(({ state }) => state === "published");
  const label = `Findings in the week of ${week}`;
  return (
    <>
      {isOver && <Text>{describeKnown(partitions, day)}</Text>}
      <Text mb={1}>{`Now: ${countStates(partitions)}${areAllPublished ? ", with all their rows" : ""}.`}</Text>
      {findings.length > 0 &&
        (isOver ? (
          <WeekFindings partitions={findings} day={day} label={label} />
        ) : (
          <PartitionTable partitions={findings} label={label} />
        ))}
    </>
  );
}
