// Links inside the page, to Airflow, and to other places.
import { Link as ChakraLink } from "@chakra-ui/react";
import type { ReactNode } from "react";
import { Link, useParams } from "react-router-dom";
import { checkAddress } from "./address";

/** Link to an address from a document. Nothing is shown if the address is empty, or if a link must not open it. */
export function ExternalLink({ address, children }: { address: string; children: ReactNode }) {
  const checked = checkAddress(address);
  if (checked === null) return null;
  return (
    <ChakraLink href={checked} target="_blank" rel="noopener noreferrer" colorPalette="blue" textDecoration="underline">
      {children}
    </ChakraLink>
  );
}

/** Show a text, and link it to an address from a document, if there is one that a link may open. */
export function LinkedText({ address, children }: { address: string; children: string }) {
  return checkAddress(address) === null ? <>{children}</> : <ExternalLink address={address}>{children}</ExternalLink>;
}

/** Return the path of the page inside Airflow's UI. */
export const usePagePath = (): string => `/plugin/${useParams().page ?? "leeway"}`;

/** Link to a view of the page, such as `models/flights`. */
export function ViewLink({ to, children }: { to: string; children: ReactNode }) {
  const page = usePagePath();
  return <AirflowLink to={`${page}/${to}`}>{children}</AirflowLink>;
}

/** Link to a place in Airflow's UI. */
export function AirflowLink({ to, children }: { to: string; children: ReactNode }) {
  return (
    <ChakraLink asChild colorPalette="blue" textDecoration="underline">
      <Link to={to}>{children}</Link>
    </ChakraLink>
  );
}

/** Return the place of a run in Airflow's UI. */
export const buildRunPath = (dagId: string, runId: string): string =>
  `/dags/${encodeURIComponent(dagId)}/runs/${encodeURIComponent(runId)}`;

/** Link to a run, written as DAG/RUN in documents. */
export function RunLink({ run, children }: { run: string; children?: ReactNode }) {
  const slash = run.indexOf("/");
  if (slash < 1) return run ? <>{run}</> : null;
  return <AirflowLink to={buildRunPath(run.slice(0, slash), run.slice(slash + 1))}>{children ?? run}</AirflowLink>;
}
