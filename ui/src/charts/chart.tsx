// A chart of Observable Plot, with a text for screen readers and a table of its values.
import { Box } from "@chakra-ui/react";
import * as Plot from "@observablehq/plot";
import { useEffect, useRef, useState } from "react";
import { Disclosure } from "../widgets/disclosure";
import { type Column, DataTable } from "../widgets/table";

/** Colors of the charts. `CHART_COLORS` defines those that differ between light and dark. */
export const COLORS = {
  text: "var(--chakra-colors-fg-muted)",
  strong: "var(--chakra-colors-fg)",
  line: "var(--chakra-colors-border)",
  panel: "var(--chakra-colors-bg-panel)",
  gray: "var(--leeway-gray)",
  blue: "var(--leeway-blue)",
  green: "var(--leeway-green)",
  orange: "var(--leeway-orange)",
  red: "var(--leeway-red)",
  purple: "var(--leeway-purple)",
};

const defineColors = (shade: number) =>
  Object.fromEntries(
    ["blue", "green", "orange", "red", "purple"].map((name) => [
      `--leeway-${name}`,
      `var(--chakra-colors-${name}-${shade})`,
    ]),
  );

/** Styles of the element around all charts: dark colors on light ground, and light ones on dark ground. */
export const CHART_COLORS = {
  ...defineColors(600),
  "--leeway-gray": "var(--chakra-colors-gray-300)",
  _dark: { ...defineColors(400), "--leeway-gray": "var(--chakra-colors-gray-600)" },
};

interface ChartProps {
  /** What the chart shows, for people who cannot see it. */
  label: string;
  /** Returns the options of Plot for a width in pixels. Pass the same function until the data change. */
  build: (width: number) => Plot.PlotOptions;
  /** Called with what the visitor clicks: the datum of the chart's tip. */
  onSelect?: (datum: never) => void;
}

/** Draw a chart that fills the width of its parent element. */
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
