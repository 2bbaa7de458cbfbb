// Tables of values.
import { Box, Grid, Stack, Table, Text, useBreakpointValue } from "@chakra-ui/react";
import { Fragment, type ReactNode } from "react";

export interface Column<T> {
  title: string;
  /** Whether the values are numbers, which stand at the right. */
  isNumber?: boolean;
  /** Whether the text may be broken into lines. */
  wraps?: boolean;
  /** Least width of a text that may be broken. */
  minWidth?: string;
  render: (row: T) => ReactNode;
}

interface DataTableProps<T> {
  label: string;
  columns: Column<T>[];
  rows: T[];
  getKey: (row: T, index: number) => string;
  maxHeight?: string;
}

/** Show rows as a table; on a phone, each row as a list of its values. */
export function DataTable<T>(props: DataTableProps<T>) {
  const isNarrow = useBreakpointValue({ base: true, md: false }, { ssr: false });
  return isNarrow ? <RowList {...props} /> : <WideTable {...props} />;
}

/** Show each row as a list of titles and values. Values that are empty are left out. */
function RowList<T>({ label, columns, rows, getKey, maxHeight }: DataTableProps<T>) {
  return (
    <Stack as="ul" aria-label={label} listStyleType="none" gap={0} overflowY="auto" maxH={maxHeight} tabIndex={0}>
      {rows.map((row, index) => (
        <Grid
          as="li"
          key={getKey(row, index)}
          templateColumns="7rem minmax(0, 1fr)"
          columnGap={2}
          py={2}
          borderTopWidth="1px"
          fontSize="13px"
        >
          {columns
            .map((column) => ({ title: column.title, value: column.render(row) }))
            .filter(({ value }) => value !== "" && value !== null && value !== undefined)
            .map(({ title, value }) => (
              <Fragment key={title}>
                <Text color="fg.muted" fontSize="xs" pt="1px">
                  {title}
                </Text>
                <Box overflowWrap="anywhere" fontVariantNumeric="tabular-nums">
                  {value}
                </Box>
              </Fragment>
            ))}
        </Grid>
      ))}
    </Stack>
  );
}

/** Show rows as a table, which scrolls if it is too wide or too high. */
function WideTable<T>({ label, columns, rows, getKey, maxHeight }: DataTableProps<T>) {
  return (
    <Box overflow="auto" maxH={maxHeight} tabIndex={0} role="group" aria-label={label}>
      <Table.Root size="sm" fontSize="13px" aria-label={label} stickyHeader={Boolean(maxHeight)}>
        <Table.Header>
          <Table.Row bg={maxHeight ? "bg" : "transparent"}>
            {columns.map((column) => (
              <Table.ColumnHeader key={column.title} textAlign={column.isNumber ? "end" : "start"} px={1.5}>
                {column.title}
              </Table.ColumnHeader>
            ))}
          </Table.Row>
        </Table.Header>
        <Table.Body>
          {rows.map((row, index) => (
            <Table.Row key={getKey(row, index)} bg="transparent">
              {columns.map((column) => (
                <Table.Cell
                  key={column.title}
                  textAlign={column.isNumber ? "end" : "start"}
                  fontVariantNumeric="tabular-nums"
                  minW={column.wraps ? (column.minWidth ?? "14rem") : undefined}
                  px={1.5}
                  verticalAlign="top"
                >
                  {column.wraps ? (
                    <Box overflowWrap="anywhere">{column.render(row)}</Box>
                  ) : (
                    // One line, unless the text is unusually long.
                    <Box width="max-content" maxW="20rem" overflowWrap="anywhere" ms={column.isNumber ? "auto" : 0}>
                      {column.render(row)}
                    </Box>
                  )}
                </Table.Cell>
              ))}
            </Table.Row>
          ))}
        </Table.Body>
      </Table.Root>
    </Box>
  );
}
