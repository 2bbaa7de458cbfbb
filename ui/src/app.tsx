// The page: tabs, and the view that the path names.
import { Box, Flex, Heading, Link as ChakraLink, Text } from "@chakra-ui/react";
import { useEffect } from "react";
import { Link, useParams } from "react-router-dom";
import { AirflowProvider, useAirflow } from "./airflow/state";
import { CHART_COLORS } from "./charts/chart";
import { CostsPage } from "./costs/page";
import { DataPage } from "./data/page";
import { usePagePath } from "./links";
import { ModelPage } from "./model/page";
import { ModelsPage } from "./models/page";
import { Notice } from "./widgets/notice";
import { EmptyNote } from "./widgets/panel";

const TABS = [
  { path: "models", title: "Models" },
  { path: "data", title: "Data" },
  { path: "costs", title: "Costs" },
];

/** Show the page inside Airflow's frame. */
export function App() {
  const [view = "models", name = ""] = (useParams()["*"] ?? "").split("/").filter(Boolean);
  useEffect(hideIcon, []);
  return (
    <AirflowProvider>
      <Box as="main" px={{ base: 2, md: 4 }} py={3} minW={0} height="100%" overflowY="auto" css={CHART_COLORS}>
        <Flex as="header" align="center" gap={6} mb={4} borderBottomWidth="1px" wrap="wrap">
          <Heading as="h1" size="md">
            Leeway
          </Heading>
          <Tabs current={view} />
          <Text fontSize="xs" color="fg.muted" ms={{ md: "auto" }}>
            Days and times are UTC.
          </Text>
        </Flex>
        <AirflowError />
        <CurrentView view={view} name={name} />
      </Box>
    </AirflowProvider>
  );
}

/** Hide the page's icon in the navigation from screen readers: its name stands beside it. Airflow 3.3 gives icons of plugins
 * no alternative text, and then the name of the file is read aloud. */
function hideIcon(): void {
  for (const icon of document.querySelectorAll("img[src*='leeway/icon']")) icon.setAttribute("alt", "");
}

/** Show why Airflow's runs and approvals are not known. Errors of documents are shown by the views. */
function AirflowError() {
  const { error } = useAirflow();
  if (!error || error.status === 401 || error.status === 0) return null;
  return (
    <Box mb={4}>
      <Notice status="warning" title="The runs and approvals could not be read from Airflow.">
        {error.message}
      </Notice>
    </Box>
  );
}

function Tabs({ current }: { current: string }) {
  const page = usePagePath();
  return (
    <Flex as="nav" aria-label="Leeway" gap={1}>
      {TABS.map(({ path, title }) => {
        const isCurrent = path === current;
        return (
          <ChakraLink
            key={path}
            asChild
            px={3}
            py={2}
            mb="-1px"
            fontSize="sm"
            fontWeight={isCurrent ? "semibold" : "normal"}
            borderBottomWidth="2px"
            borderColor={isCurrent ? "blue.solid" : "transparent"}
            color={isCurrent ? "fg" : "fg.muted"}
          >
            <Link to={`${page}/${path}`} aria-current={isCurrent ? "page" : undefined}>
              {title}
            </Link>
          </ChakraLink>
        );
      })}
    </Flex>
  );
}

function CurrentView({ view, name }: { view: string; name: string }) {
  if (view === "models") return name ? <ModelPage key={name} model={name} /> : <ModelsPage />;
  if (view === "data") return <DataPage dataset={name} />;
  if (view === "costs") return <CostsPage />;
  return <EmptyNote>There is no view {view}. Choose one of the tabs.</EmptyNote>;
}
