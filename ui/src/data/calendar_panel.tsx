// The calendar, its legend, and the partitions of the selected day.
import { Box, Button, Flex, HStack, Input, Stack, Text } from "@chakra-ui/react";
import { useEffect, useMemo, useRef, useState } from "react";
import { PermittedActions } from "../actions/permitted_actions";
import { useHasDag } from "../airflow/state";
import { Withdraw } from "../actions/withdraw";
import type { DatasetDetails, PartitionState } from "../documents/types";
import { Disclosure } from "../widgets/disclosure";
import { Panel } from "../widgets/panel";
import { Year } from "./calendar";
import { PartitionTable } from "./findings";
import { Quarantine } from "./quarantine";
import { formatState, ORDER, STATES } from "./states";

/** Show the calendar. A click selects a day; with a keyboard, the field does. */
export function CalendarPanel({ details }: { details: DatasetDetails }) {
  const { partitions, unit } = details;
  const years = useMemo(() => [...Map.groupBy(partitions, ({ day }) => day.slice(0, 4))].reverse(), [partitions]);
  const [day, setDay] = useState(partitions.at(-1)?.day ?? "");
  const selected = partitions.filter((partition) => partition.day === day);
  const calendar = useRef<HTMLDivElement>(null);
  useEffect(() => {
    // On a phone, the newest weeks are visible first.
    if (calendar.current) calendar.current.scrollLeft = calendar.current.scrollWidth;
  }, []);
  return (
    <Panel
      title="Partitions"
      note={`Last validation of each, days in UTC.${unit === "hour" ? " A day shows the most serious state of its hours." : ""}`}
      actions={<DayPicker partitions={partitions} day={day} onChange={setDay} />}
    >
      <Stack ref={calendar} gap={3} overflowX="auto" tabIndex={0} role="group" aria-label="Calendar">
        {years.map(([year, group]) => (
          <Box key={year} minW="700px">
            <Text fontSize="xs" fontWeight="medium">
              {year}
            </Text>
            <Year year={year} partitions={group} unit={unit} selected={day} onSelect={setDay} />
          </Box>
        ))}
      </Stack>
      <Legend />
      <Quarantine details={details} />
      <Disclosure title="Show as table: partitions">
        {() => <PartitionTable partitions={partitions.toReversed()} label="All partitions" />}
      </Disclosure>
      <Box mt={3} aria-live="polite">
        {selected.length > 0 ? (
          <>
            <PartitionTable partitions={selected} label={`Partitions of ${day}`} />
            <Withdrawals details={details} partitions={selected} />
          </>
        ) : (
          <Text fontSize="sm" color="fg.muted">
            {day ? `There is no partition of ${day}.` : "Choose a day."}
          </Text>
        )}
      </Box>
    </Panel>
  );
}

/** Offer to withdraw the published partitions of a day. */
function Withdrawals({ details, partitions }: { details: DatasetDetails; partitions: PartitionState[] }) {
  const hasDag = useHasDag();
  const published = partitions.filter(({ rows }) => rows > 0);
  if (published.length === 0 || !hasDag(`${details.rows_from || details.dataset}_withdraw`)) return null;
  return (
    <Box mt={2}>
      <PermittedActions dagId={`${details.rows_from || details.dataset}_ingest`}>
        {published.map((partition) => (
          <Withdraw key={partition.partition} details={details} partition={partition} />
        ))}
      </PermittedActions>
    </Box>
  );
}

interface DayPickerProps {
  partitions: PartitionState[];
  day: string;
  onChange: (day: string) => void;
}

/** Choose a day, or the finding before or after it. */
function DayPicker({ partitions, day, onChange }: DayPickerProps) {
  const findings = partitions.filter(({ state }) => state !== "published").map((partition) => partition.day);
  const before = findings.findLast((each) => each < day);
  const after = findings.find((each) => each > day);
  return (
    <HStack gap={1} wrap="wrap">
      <Button size="xs" variant="outline" disabled={!before} onClick={() => before && onChange(before)}>
        ‹ Finding
      </Button>
      <Input
        size="xs"
        type="date"
        aria-label="Day"
        width="9rem"
        value={day}
        onChange={(event) => onChange(event.target.value)}
      />
      <Button size="xs" variant="outline" disabled={!after} onClick={() => after && onChange(after)}>
        Finding ›
      </Button>
    </HStack>
  );
}

function Legend() {
  return (
    <Flex wrap="wrap" columnGap={4} rowGap={1} mt={2} fontSize="xs" color="fg.muted">
      {ORDER.map((state) => {
        const { letter, color, opacity, meaning } = STATES[state];
        return (
          <HStack key={state} gap={1}>
            <Box
              position="relative"
              width="14px"
              height="14px"
              textAlign="center"
              lineHeight="14px"
              fontSize="9px"
              fontWeight="semibold"
              color="fg"
            >
              <Box position="absolute" inset={0} borderRadius="2px" style={{ background: color, opacity }} />
              <Box as="span" position="relative">
                {letter}
              </Box>
            </Box>
            <Text>
              {formatState(state)}: {meaning}
            </Text>
          </HStack>
        );
      })}
    </Flex>
  );
}
