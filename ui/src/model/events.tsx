// The list of events.
import { Box, Flex, Input, NativeSelect } from "@chakra-ui/react";
import { useState } from "react";
import type { TimelineEvent } from "../documents/types";
import { formatMoment, formatName, formatNumber } from "../format";
import { ExternalLink, RunLink } from "../links";
import { EmptyNote, Panel } from "../widgets/panel";
import { type Column, DataTable } from "../widgets/table";

const MAX_EVENTS = 200;

const COLUMNS: Column<TimelineEvent>[] = [
  { title: "As of", render: (event) => event.as_of ?? "" },
  { title: "Event", render: (event) => <b>{formatName(event.kind)}</b> },
  { title: "Version", isNumber: true, render: (event) => event.version },
  { title: "Result", render: describeResult },
  { title: "Reason", wraps: true, render: (event) => event.why },
  { title: "By", wraps: false, render: (event) => event.who },
  {
    title: "Links",
    render: (event) => (
      <Flex gap={3}>
        {event.run && <RunLink run={event.run}>run</RunLink>}
        <ExternalLink address={event.report_url}>report</ExternalLink>
      </Flex>
    ),
  },
  { title: "Recorded at", render: (event) => formatMoment(event.at) },
];

/** Describe the result of an event: verdict, guard, trigger and the change of the champion. */
function describeResult(event: TimelineEvent): string {
  const change = event.to_version && `champion ${event.from_version || "none"} → ${event.to_version}`;
  const trigger = event.trigger && `by ${event.trigger}`;
  return [formatName(event.outcome), event.guard, trigger, change].filter(Boolean).join(", ");
}

/** Titles of the columns with the time of an event. A table of the events of one week does not need them. */
const TIMES = ["As of", "Recorded at"];

const MAX_OPEN = 10;

/** Show events as a table. It scrolls if it has many. */
export function EventTable({ events, hasTimes = true }: { events: TimelineEvent[]; hasTimes?: boolean }) {
  return (
    <DataTable
      label="Events"
      columns={COLUMNS.filter(({ title }) => hasTimes || !TIMES.includes(title))}
      rows={events}
      getKey={(event, index) => `${event.at} ${event.kind} ${index}`}
      maxHeight={events.length > MAX_OPEN ? "24rem" : undefined}
    />
  );
}

/** Show all events, newest first, with filters. */
export function EventPanel({ events }: { events: TimelineEvent[] }) {
  const [kind, setKind] = useState("");
  const [text, setText] = useState("");
  const kinds = [...new Set(events.map((event) => event.kind))].sort();
  const words = text.toLowerCase();
  const matches = events
    .filter((event) => !kind || event.kind === kind)
    .filter((event) => !words || Object.values(event).join(" ").toLowerCase().includes(words))
    .toReversed();
  const filters = (
    <Flex gap={2} wrap="wrap">
      <NativeSelect.Root size="xs" width="10rem">
        <NativeSelect.Field aria-label="Kind of event" value={kind} onChange={(event) => setKind(event.target.value)}>
          <option value="">all kinds</option>
          {kinds.map((name) => (
            <option key={name} value={name}>
              {formatName(name)}
            </option>
          ))}
        </NativeSelect.Field>
        <NativeSelect.Indicator />
      </NativeSelect.Root>
      <Input
        size="xs"
        width="12rem"
        placeholder="Text"
        aria-label="Text of the event"
        value={text}
        onChange={(event) => setText(event.target.value)}
      />
    </Flex>
  );
  const note =
    matches.length > MAX_EVENTS
      ? `the newest ${MAX_EVENTS} of ${matches.length}`
      : formatNumber(matches.length, "event");
  return (
    <Panel title="Events" note={note} actions={filters}>
      {matches.length > 0 ? (
        <Box>
          <EventTable events={matches.slice(0, MAX_EVENTS)} />
        </Box>
      ) : (
        <EmptyNote>{events.length ? "No event matches." : "Nothing has happened to this model yet."}</EmptyNote>
      )}
    </Panel>
  );
}
