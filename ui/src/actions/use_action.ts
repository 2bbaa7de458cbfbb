// One action of a visitor, which is sent once.
import { type ReactNode, useRef, useState } from "react";
import { RequestError } from "../request";

export interface ActionResult {
  text: string;
  /** Path in Airflow's UI of the run that was started. */
  path?: string;
  /** Whether another visitor, or an earlier request, has already done it. */
  wasDone?: boolean;
}

export interface Action {
  isSending: boolean;
  result: ActionResult | undefined;
  error: RequestError | undefined;
  send: () => void;
  reset: () => void;
}

/** Return an action. Its `send` does nothing while an earlier request waits for its answer. */
export function useAction(act: () => Promise<ActionResult>, onDone: () => void): Action {
  const [state, setState] = useState<{ isSending: boolean; result?: ActionResult; error?: RequestError }>({
    isSending: false,
  });
  const isBusy = useRef(false);

  const send = async () => {
    if (isBusy.current) return;
    isBusy.current = true;
    setState({ isSending: true });
    try {
      setState({ isSending: false, result: await act() });
      onDone();
    } catch (error) {
      setState({
        isSending: false,
        error: error instanceof RequestError ? error : new RequestError(-1, String(error)),
      });
    } finally {
      isBusy.current = false;
    }
  };
  const { isSending, result, error } = state;
  return { isSending, result, error, send: () => void send(), reset: () => setState({ isSending: false }) };
}

/** Describe what an error means for an action: whether it was done, and what the visitor can do. */
export function describeError(error: RequestError): { title: string; text: ReactNode } {
  if (error.status === 0) {
    const text = "Airflow may have received the request. Send it again: nothing is started twice.";
    return { title: "No answer arrived.", text };
  }
  if (error.status === 401) {
    const text = "Your session has ended. Log in in another tab, then send it again. Your text stays here.";
    return { title: "Nothing was done.", text };
  }
  if (error.status === 403) {
    return { title: "You may not do this, and nothing was done.", text: `Airflow says: ${error.message}` };
  }
  return { title: "Airflow did not do this.", text: `Airflow says: ${error.message}` };
}
