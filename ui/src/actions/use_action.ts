// One action of a visitor, which is sent once.
import { type ReactNode, useRef, useState } from "react";
import { RequestError } from "../request";

export interface ActionResult {
  text: string;
  /** Place of what was started, in Airflow's UI. */
  path?: string;
  /** Whether somebody else, or an earlier request, did it before. */
  wasDone?: boolean;
}

export interface Action {
  isSending: boolean;
  result: ActionResult | undefined;
  error: RequestError | undefined;
  send: () => void;
  reset: () => void;
}

/** Send an action when `send` is called, and never a second time before the answer arrived. */
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

/** Say what an error means for an action: what was done, and what the visitor can do. */
export function describeError(error: RequestError): { title: string; text: ReactNode } {
  if (error.status === 0) {
    const text = "Airflow may have done it, or not. Send it again: what was started already is not started twice.";
    return { title: "No answer arrived.", text };
  }
  if (error.status === 401) {
    const text = "Your session has ended. Log in in another tab, then send it again: what you wrote stays here.";
    return { title: "Nothing was done.", text };
  }
  if (error.status === 403) {
    return { title: "You may not do this, and nothing was done.", text: `Airflow says: ${error.message}` };
  }
  return { title: "Airflow did not do this.", text: `Airflow says: ${error.message}` };
}
