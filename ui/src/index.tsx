// What Airflow loads: it renders the function that has the plugin's name among the globals.
import { App } from "./app";

Object.assign(globalThis, { Leeway: App, AirflowPlugin: App });
