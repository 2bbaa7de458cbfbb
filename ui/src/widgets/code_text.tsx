// Text with commands in it.
import { Code } from "@chakra-ui/react";

/** Show a text. What stands between backticks is shown as code. */
export function CodeText({ text }: { text: string }) {
  // The parts of a text never change their places, so the index is their key.
  return text.split("`").map((part, index) => (index % 2 ? <Code key={index}>{part}</Code> : part));
}
