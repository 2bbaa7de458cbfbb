// How many rows each day has.
import * as Plot from "@observablehq/plot";
import { useMemo } from "react";
import { Chart, ChartTable, COLORS } from "../charts/chart";
import type { DatasetDetails } from "../documents/types";
import { formatCount } from "../format";
import { Panel } from "../widgets/panel";

const DAY_MS = 86_400_000;

interface Day {
  day: Date;
  rows: number;
  quarantined: number;
}

/** Sum the rows of each day. */
function sumRows(details: DatasetDetails): Day[] {
  const groups = Map.groupBy(details.partitions, ({ day }) => day);
  return [...groups].map(([day, partitions]) => ({
    day: new Date(day),
    rows: partitions.reduce((sum, { rows }) => sum + rows, 0),
    quarantined: partitions.reduce((sum, { quarantined_rows: rows }) => sum + rows, 0),
  }));
}

/** Draw the published rows and the rows in quarantine. */
export function Volume({ details }: { details: DatasetDetails }) {
  const days = useMemo(() => sumRows(details), [details]);
  const unit = details.unit === "month" ? "month" : "day";
  const build = useMemo(() => {
    const width = unit === "month" ? 28 * DAY_MS : DAY_MS;
    const end = (day: Day) => new Date(+day.day + width);
    return (): Plot.PlotOptions => ({
      height: 150,
      marginLeft: 56,
      marginTop: 20,
      marginBottom: 32,
      x: { type: "utc", label: null, tickSize: 3 },
      y: {
        label: `rows of a ${unit}`,
        ticks: 4,
        tickFormat: formatCount,
        labelAnchor: "top",
        labelArrow: "none",
        zero: true,
        nice: true,
      },
      marks: [
        Plot.gridY({ stroke: COLORS.line, strokeOpacity: 1, ticks: 4 }),
        Plot.areaY(days, { x: "day", y: "rows", curve: "step-after", fill: COLORS.blue, fillOpacity: 0.5 }),
        Plot.rectY(
          days.filter((day) => day.quarantined > 0),
          { x1: "day", x2: end, y1: "rows", y2: (day: Day) => day.rows + day.quarantined, fill: COLORS.orange },
        ),
        Plot.tip(days, Plot.pointerX({ x: "day", y: "rows", title: describeDay, fill: COLORS.panel })),
      ],
    });
  }, [days, unit]);
  return (
    <Panel title={`Volume per ${unit}`} note="Published rows (blue), and rows in quarantine (orange)">
      <Chart label={`Rows of ${days.length} ${unit}s`} build={build} />
      <ChartTable
        label="volume"
        rows={days.toReversed()}
        columns={[
          { title: unit === "month" ? "Month" : "Day", render: (row) => row.day.toISOString().slice(0, 10) },
          { title: "Rows", isNumber: true, render: (row) => formatCount(row.rows) },
          { title: "In quarantine", isNumber: true, render: (row) => formatCount(row.quarantined) },
        ]}
      />
    </Panel>
  );
}

const describeDay = ({ day, rows, quarantined }: Day): string =>
  `${day.toISOString().slice(0, 10)}\n${formatCount(rows)} rows${quarantined ? `\n${quarantined} in quarantine` : ""}`;
