// A chart of Observable Plot, with a text for screen readers and a table of its values.
import { Box } from "@chakra-ui/react";
import * as Plot from "@observablehq/plot";
import { useEffect, useRef, useState } from "react";
import { Disclosure } from "../widgets/disclosure";
import { type Column, DataTable } from "../widgets/table";

export const COLORS = {
  text: "var(--chakra-colors-fg-muted)",
  strong: "var(--chakra-colors-fg)",
  line: "var(--chakra-colors-border)",
  blue: "var(--chakra-colors-blue-solid)",
  green: "var(--chakra-colors-green-solid)",
  orange: "var(--chakra-colors-orange-solid)",
  red: "var(--chakra-colors-red-solid)",
  purple: "var(--chakra-colors-purple-solid)",
  gray: "var(--chakra-colors-gray-emphasized)",
};

interface ChartProps {
  /** What the chart shows, for people who cannot see it. */
  label: string;
  /** Return what Plot draws in a width of so many pixels. It must not change unless the data do. */
  build: (width: number) => Plot.PlotOptions;
  /** Called with what the visitor clicks: the datum of the chart's tip. */
  onSelect?: (datum: never) => void;
}

/** Draw a chart that is as wide as its place. */
export function Chart({ label, build, onSelect }: ChartProps) {
  const place = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(0);

  useEffect(() => {
    const element = place.current;
    if (!element) return;
    const observer = new ResizeObserver(([entry]) => entry && setWidth(Math.floor(entry.contentRect.width)));
    observer.observe(element);
    return () => observer.disconnect();
  }, []);

  useEffect(() => {
    if (!place.current || width < 50) return;
    const style = { background: "transparent", color: COLORS.text, fontFamily: "inherit", fontSize: "11px" };
    const drawing = Plot.plot({ ...build(width), width, style: { ...style, overflow: "visible" } });
    drawing.setAttribute("aria-hidden", "true");
    place.current.replaceChildren(drawing);
    return () => drawing.remove();
  }, [build, width]);

  const select = () => {
    const drawing = place.current?.firstElementChild as { value?: never } | null | undefined;
    if (drawing?.value) onSelect?.(drawing.value);
  };
  return <Box ref={place} role="img" aria-label={label} minW={0} onClick={onSelect && select} />;
}

/** Offer the values of a chart as a table. */
export function ChartTable<T>({ label, columns, rows }: { label: string; columns: Column<T>[]; rows: T[] }) {
  return (
    <Disclosure title={`Show as table: ${label}`}>
      {() => (
        <DataTable label={label} columns={columns} rows={rows} getKey={(_, index) => String(index)} maxHeight="20rem" />
      )}
    </Disclosure>
  );
}
