// The frame that all views share: the data or an error, and a warning if the data may be old.
import { Skeleton, Stack } from "@chakra-ui/react";
import { type ReactNode, useEffect } from "react";
import type { DocumentResponse } from "./documents/read";
import { formatMoment } from "./format";
import type { PollResult } from "./poll";
import { buildLoginAddress } from "./request";
import { Notice, ReadError } from "./widgets/notice";

interface ViewProps<T> {
  result: PollResult<DocumentResponse<T>>;
  /** Name of the data in a sentence. */
  what: string;
  children: (document: T) => ReactNode;
}

/** Show the document of a view. Until it has been read, show a placeholder, or the error. */
export function View<T extends { written_at: string }>({ result, what, children }: ViewProps<T>) {
  const { data, error } = result;
  useEffect(() => {
    // A dialog may contain a text of the visitor, so it stays. It shows itself that the session has ended.
    if (error?.status === 401 && !document.querySelector("[role=dialog]")) window.location.assign(buildLoginAddress());
  }, [error]);
  if (!data) {
    if (error) return <ReadError error={error} what={what} />;
    return (
      <Stack gap={3} role="status" aria-label="Loading">
        <Skeleton height="2rem" />
        <Skeleton height="16rem" />
      </Stack>
    );
  }
  return (
    <Stack gap={4} minW={0}>
      {error && <UpdateError status={error.status} text={error.message} />}
      <WatchNotice response={data} />
      {children(data.document)}
    </Stack>
  );
}

function UpdateError({ status, text }: { status: number; text: string }) {
  return (
    <Notice status="error" title="The last update failed. The page shows older data.">
      {status === 401 ? "Your session has ended." : text}
    </Notice>
  );
}

/** Warn if nothing checks the lake for changes now. */
function WatchNotice<T extends { written_at: string }>({ response }: { response: DocumentResponse<T> }) {
  const { watchedAt, isWatched, document } = response;
  if (isWatched) return null;
  return (
    <Notice status="warning" title={`State as of ${formatMoment(watchedAt ?? document.written_at)}`}>
      Nothing checks the lake now. Run <code>python -m pipelines status --watch</code>.
    </Notice>
  );
}
