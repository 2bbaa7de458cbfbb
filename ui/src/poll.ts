// Data that are read again every few seconds, while the visitor sees the page.
import { useCallback, useEffect, useRef, useState } from "react";
import { RequestError } from "./request";

export interface PollResult<T> {
  /** The last data that were read. They stay if a later request fails. */
  data: T | undefined;
  /** Error of the last request. */
  error: RequestError | undefined;
  /** Read the data now. */
  refresh: () => void;
}

/** Call `read` at once, and then every few seconds while the page is visible.
 * @param key identifies the data. If it changes, the old data are dropped. Null: nothing is read.
 * @param seconds time between the end of a call and the next call.
 * @param read returns the data; undefined if they have not changed. */
export function usePolling<T>(key: string | null, seconds: number, read: () => Promise<T | undefined>): PollResult<T> {
  const [state, setState] = useState<{ key: string | null; data?: T; error?: RequestError }>({ key });
  const latest = useRef(read);
  latest.current = read;
  const [refreshCount, setRefreshCount] = useState(0);

  useEffect(() => {
    if (key === null) return;
    let isStopped = false;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const poll = async () => {
      clearTimeout(timer);
      if (document.visibilityState === "visible") {
        try {
          const data = await latest.current();
          if (!isStopped) setState((old) => ({ key, data: data ?? (old.key === key ? old.data : undefined) }));
        } catch (error) {
          const cause = error instanceof RequestError ? error : new RequestError(-1, String(error));
          if (!isStopped) setState((old) => ({ key, data: old.key === key ? old.data : undefined, error: cause }));
        }
      }
      if (!isStopped) timer = setTimeout(poll, seconds * 1000);
    };
    const pollIfVisible = () => document.visibilityState === "visible" && void poll();
    void poll();
    document.addEventListener("visibilitychange", pollIfVisible);
    return () => {
      isStopped = true;
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", pollIfVisible);
    };
  }, [key, seconds, refreshCount]);

  const refresh = useCallback(() => setRefreshCount((count) => count + 1), []);
  const isCurrent = state.key === key;
  return { data: isCurrent ? state.data : undefined, error: isCurrent ? state.error : undefined, refresh };
}
