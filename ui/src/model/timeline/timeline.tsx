// A year of a model: events, performance and drift above each other, with one axis of time.
import { Box, Button, HStack, NativeSelect, Stack, Text } from "@chakra-ui/react";
import { type MouseEvent, useEffect, useMemo, useRef, useState } from "react";
import { ChartTable } from "../../charts/chart";
import type { ModelDetails } from "../../documents/types";
import { addDays, formatCount, formatDay, formatInterval, formatMetric } from "../../format";
import { EmptyNote, Panel } from "../../widgets/panel";
import { type Axis, findDay, findWeek, hasDay, locate } from "./axis";
import { DriftMap, sortColumns } from "./drift_map";
import { History, HistoryTable } from "./history";
import { Legend } from "./legend";
import { PerformanceChart } from "./performance";

const FEW_COLUMNS = 12;

interface TimelineProps {
  details: ModelDetails;
  axis: Axis;
  week: string;
  onSelect: (week: string) => void;
}

/** Show the year. A click selects a week; with a keyboard, the field above does. */
export function Timeline({ details, axis, week, onSelect }: TimelineProps) {
  const columns = useMemo(() => sortColumns(details.drift_weeks), [details.drift_weeks]);
  const [isExpanded, setExpanded] = useState(false);
  const visibleColumns = useMemo(() => (isExpanded ? columns : columns.slice(0, FEW_COLUMNS)), [columns, isExpanded]);
  const outside = details.events.filter((event) => !hasDay(axis, findDay(event))).length;
  const note =
    "Weeks by the dates of the data, UTC. An event is shown at its as-of date, or else at the date at which it was " +
    `recorded.${outside ? ` ${outside} events are outside of these weeks: see the list below.` : ""}`;
  return (
    <Panel title="History" note={note} actions={<WeekField axis={axis} week={week} onSelect={onSelect} />}>
      <WeekSelection axis={axis} week={week} onSelect={onSelect}>
        <History details={details} axis={axis} />
        {details.summary.performance ? (
          <PerformanceChart details={details} axis={axis} />
        ) : (
          <EmptyNote>No labels are known yet, so there is no performance.</EmptyNote>
        )}
        {columns.length > 0 ? (
          <DriftMap details={details} axis={axis} columns={visibleColumns} />
        ) : (
          <EmptyNote>There is no drift decision about this model yet.</EmptyNote>
        )}
      </WeekSelection>
      <Legend />
      {columns.length > FEW_COLUMNS && (
        <Button size="2xs" variant="ghost" mt={1} onClick={() => setExpanded(!isExpanded)}>
          {isExpanded
            ? `Show the ${FEW_COLUMNS} columns with the largest effects`
            : `Show all ${columns.length} columns`}
        </Button>
      )}
      <HistoryTable details={details} axis={axis} />
      <Tables details={details} columns={columns} />
    </Panel>
  );
}

/** Mark the selected week in all charts, and select the week that is clicked. */
function WeekSelection({
  axis,
  week,
  onSelect,
  children,
}: Omit<TimelineProps, "details"> & { children: React.ReactNode }) {
  const place = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const observer = new ResizeObserver(([entry]) => entry && setWidth(entry.contentRect.width));
    if (place.current) observer.observe(place.current);
    return () => observer.disconnect();
  }, []);
  const select = (event: MouseEvent<HTMLDivElement>) => {
    const left = event.clientX - event.currentTarget.getBoundingClientRect().left;
    const clicked = findWeek(axis, left, width);
    if (clicked) onSelect(clicked);
  };
  const left = locate(axis, new Date(week), width);
  const right = locate(axis, addDays(week, 7), width);
  return (
    <Box ref={place} position="relative" onClick={select} cursor="pointer" minW={0}>
      {width > 0 && (
        <Box
          position="absolute"
          top="36px"
          bottom="36px"
          left={`${left}px`}
          width={`${right - left}px`}
          bg="bg.emphasized"
          opacity={0.8}
          pointerEvents="none"
        />
      )}
      <Stack gap={2} position="relative">
        {children}
      </Stack>
    </Box>
  );
}

/** Let the visitor choose a week with the keyboard. */
function WeekField({ axis, week, onSelect }: Omit<TimelineProps, "details">) {
  const index = axis.weeks.indexOf(week);
  const move = (step: number) => onSelect(axis.weeks[index + step] ?? week);
  return (
    <HStack gap={1}>
      <Text fontSize="xs" color="fg.muted">
        Week of
      </Text>
      <Button size="xs" variant="outline" aria-label="Previous week" disabled={index <= 0} onClick={() => move(-1)}>
        ‹
      </Button>
      <NativeSelect.Root size="xs" width="8.5rem">
        <NativeSelect.Field aria-label="Week" value={week} onChange={(event) => onSelect(event.target.value)}>
          {axis.weeks.map((monday) => (
            <option key={monday} value={monday}>
              {monday}
            </option>
          ))}
        </NativeSelect.Field>
        <NativeSelect.Indicator />
      </NativeSelect.Root>
      <Button
        size="xs"
        variant="outline"
        aria-label="Next week"
        disabled={index >= axis.weeks.length - 1}
        onClick={() => move(1)}
      >
        ›
      </Button>
    </HStack>
  );
}

function Tables({ details, columns }: { details: ModelDetails; columns: string[] }) {
  const { performance } = details.summary;
  return (
    <>
      <ChartTable
        label="performance"
        rows={(performance?.weeks ?? []).toReversed()}
        columns={[
          { title: "Week", render: (row) => `${row.week} to ${formatDay(addDays(row.week, 6))}` },
          { title: performance?.metric ?? "metric", isNumber: true, render: (row) => formatMetric(row.value) },
          { title: "95 % interval", isNumber: true, render: (row) => formatInterval(row.low, row.high) },
          { title: "Rows", isNumber: true, render: (row) => formatCount(row.rows) },
          { title: "Versions", render: (row) => row.versions.join(", ") },
        ]}
      />
      <ChartTable
        label="drift, as multiples of the bounds"
        rows={details.drift_weeks.toReversed()}
        columns={[
          { title: "Week", render: (row) => row.week },
          ...columns.map((column) => ({
            title: column,
            isNumber: true,
            render: (row: ModelDetails["drift_weeks"][number]) => formatMetric(row.effects[column] ?? null),
          })),
        ]}
      />
    </>
  );
}
