// The documents that `python -m pipelines status --write` writes, and Airflow's API server sends.
import { useRef } from "react";
import { type PollResult, usePolling } from "../poll";
import { RequestError, readError, send } from "../request";

const SCHEMA_VERSION = 1;
const POLL_S = 5;
const FRESH_MS = 60_000;

export interface DocumentResponse<T> {
  document: T;
  /** When the lake was last checked for changes; null if it is not known. */
  watchedAt: Date | null;
  /** Whether this check was in the last minute, by the server's clock. */
  isWatched: boolean;
}

/** Read a document every few seconds.
 * @param path path of the document, such as `models/flights`; null: nothing is read. */
export function useDocument<T extends { schema_version?: number; written_at: string }>(
  path: string | null,
): PollResult<DocumentResponse<T>> {
  const last = useRef<{ path: string; etag: string; document: T } | null>(null);
  return usePolling<DocumentResponse<T>>(path, POLL_S, async () => {
    const name = path ?? "";
    const known = last.current?.path === name ? last.current : null;
    const response = await send(`leeway/documents/${name}`, {
      cache: "no-store",
      headers: known?.etag ? { "If-None-Match": known.etag } : {},
    });
    if (response.status === 304 && known) return { document: known.document, ...readWatch(response) };
    if (!response.ok) throw await readError(response);
    const document = (await response.json()) as T;
    if (document.schema_version !== SCHEMA_VERSION) throw createVersionError(document.schema_version);
    last.current = { path: name, etag: response.headers.get("ETag") ?? "", document };
    return { document, ...readWatch(response) };
  });
}

function readWatch({ headers }: Response): Pick<DocumentResponse<unknown>, "watchedAt" | "isWatched"> {
  const time = Date.parse(headers.get("X-Leeway-Watched-At") ?? "");
  if (Number.isNaN(time)) return { watchedAt: null, isWatched: false };
  const now = Date.parse(headers.get("Date") ?? "") || Date.now();
  return { watchedAt: new Date(time), isWatched: now - time <= FRESH_MS };
}

function createVersionError(version: unknown): RequestError {
  const text =
    `The document has version ${String(version)}, and this page reads version ${SCHEMA_VERSION}. ` +
    "Install the same Leeway in Airflow and where `python -m pipelines status` runs, then write the documents again.";
  return new RequestError(-1, text);
}
