// The endpoints that run.
import type { EndpointCost } from "../documents/types";
import { formatMoment, formatUsd } from "../format";
import { ViewLink } from "../links";
import { EmptyNote, Panel } from "../widgets/panel";
import { DataTable } from "../widgets/table";

/** Show the endpoints. */
export function EndpointTable({ endpoints }: { endpoints: EndpointCost[] }) {
  return (
    <Panel title="Endpoints" note="Endpoints that run, according to the lake">
      {endpoints.length === 0 ? (
        <EmptyNote>No endpoint runs.</EmptyNote>
      ) : (
        <DataTable
          label="Endpoints"
          rows={endpoints}
          getKey={({ endpoint }) => endpoint}
          columns={[
            { title: "Endpoint", render: (row) => row.endpoint },
            {
              title: "Model",
              render: (row) => <ViewLink to={`models/${encodeURIComponent(row.model)}`}>{row.model}</ViewLink>,
            },
            { title: "Machines", wraps: true, minWidth: "8rem", render: (row) => row.machine },
            { title: "USD an hour", isNumber: true, render: (row) => formatUsd(row.usd_h, 4) },
            { title: "Metered until", render: (row) => formatMoment(row.since) },
          ]}
        />
      )}
    </Panel>
  );
}
