// Messages above a view.
import { Alert } from "@chakra-ui/react";
import type { ReactNode } from "react";
import { formatSentence } from "../format";
import type { RequestError } from "../request";
import { CodeText } from "./code_text";

interface NoticeProps {
  status: "info" | "warning" | "error" | "success";
  title?: ReactNode;
  children?: ReactNode;
}

/** Show a message. A screen reader reads it aloud when it appears. */
export function Notice({ status, title, children }: NoticeProps) {
  return (
    <Alert.Root status={status} size="sm" role={status === "error" ? "alert" : "status"} alignItems="flex-start">
      <Alert.Indicator mt={0.5} />
      <Alert.Content minW={0} overflowWrap="anywhere">
        {title && <Alert.Title>{title}</Alert.Title>}
        {children && <Alert.Description as="div">{children}</Alert.Description>}
      </Alert.Content>
    </Alert.Root>
  );
}

const TITLES: Record<number, string> = {
  0: "Airflow's server cannot be reached.",
  403: "You do not have the permission to read this.",
};
const ADVICE: Record<number, string> = {
  0: "The page tries again every few seconds.",
  403: "Ask an administrator of Airflow for the permission.",
};

/** Show why data could not be read. */
export function ReadError({ error, what }: { error: RequestError; what: string }) {
  const sentence = formatSentence(error.message);
  const text = <CodeText text={`${sentence} ${ADVICE[error.status] ?? ""}`} />;
  // The server's message is enough if a document was never written, or if there is no such model or dataset.
  if (error.status === 404) return <Notice status="warning" title={text} />;
  return (
    <Notice status="error" title={TITLES[error.status] ?? `The ${what} could not be read.`}>
      {text}
    </Notice>
  );
}
