// Build the bundle of Leeway's page: plugins/leeway/page/static/leeway.js, the licenses of the libraries in it, and the
// digests of the sources and of the bundle, by which tests/unit/leeway/page/test_bundle.py sees that they fit together.
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const FOLDER = dirname(fileURLToPath(import.meta.url));
const STATIC = join(FOLDER, "../plugins/leeway/page/static");
const SOURCES = ["build.mjs", "package-lock.json", "package.json", "tsconfig.json"];
// Airflow's UI has these libraries already, and gives them to plugins as globals.
const GLOBALS = {
  react: "React",
  "react-dom": "ReactDOM",
  "react/jsx-runtime": "ReactJSXRuntime",
  "react-router-dom": "ReactRouterDOM",
  "@chakra-ui/react": "ChakraUI",
};

const useGlobals = {
  name: "use-globals",
  setup({ onLoad, onResolve }) {
    const names = Object.keys(GLOBALS).map((name) => name.replace("/", "\\/"));
    onResolve({ filter: new RegExp(`^(${names.join("|")})$`) }, ({ path }) => ({ path, namespace: "global" }));
    onLoad({ filter: /.*/, namespace: "global" }, ({ path }) => ({
      contents: `module.exports = globalThis.${GLOBALS[path]};`,
    }));
  },
};

// List the names of all sources of the bundle, relative to ui/, sorted.
const listSources = () => {
  const entries = readdirSync(join(FOLDER, "src"), { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
  return [...files.map((file) => relative(FOLDER, file)), ...SOURCES].sort();
};

// Hash files: a line for each, with the digest of its content and its name, relative to a folder.
const hashFiles = (folder, names) => {
  const hash = (content) => createHash("sha256").update(content).digest("hex");
  return names.map((name) => `${hash(readFileSync(join(folder, name)))}  ${name}\n`).join("");
};

// Return the license texts of all packages that are in the bundle.
const readLicenses = (inputs) => {
  const packages = new Set(
    inputs.map((path) => path.match(/node_modules\/((?:@[^/]+\/)?[^/]+)\//)?.[1]).filter(Boolean),
  );
  return [...packages].sort().map((name) => {
    const folder = join(FOLDER, "node_modules", name);
    const { version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
    const file = readdirSync(folder).find((entry) => /^licen[cs]e/i.test(entry));
    if (!file) throw new Error(`the package ${name} has no license file`);
    return `${name} ${version} (${license})\n\n${readFileSync(join(folder, file), "utf8").trim()}\n`;
  });
};

const result = await build({
  absWorkingDir: FOLDER,
  entryPoints: ["src/index.tsx"],
  bundle: true,
  minify: true,
  format: "iife",
  target: "es2022",
  jsx: "automatic",
  charset: "utf8",
  legalComments: "none",
  metafile: true,
  plugins: [useGlobals],
  write: false,
  outfile: "leeway.js",
});
mkdirSync(STATIC, { recursive: true });
const bundle = `/*! Licenses of the libraries in this file: leeway.licenses.txt */\n${result.outputFiles[0].text}`;
const rule = `\n${"-".repeat(80)}\n\n`;
writeFileSync(join(STATIC, "leeway.js"), bundle);
writeFileSync(join(STATIC, "leeway.licenses.txt"), readLicenses(Object.keys(result.metafile.inputs)).join(rule));
writeFileSync(join(STATIC, "sources.sha256"), hashFiles(FOLDER, listSources()) + hashFiles(STATIC, ["leeway.js"]));
console.log(`leeway.js: ${Math.round(bundle.length / 1024)} KiB`);
