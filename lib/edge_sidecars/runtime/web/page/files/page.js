// Starts the page of the component that its document names.
import { start } from "./shell.js";

const { component } = document.body.dataset;
const { draw } = await import(`./${component}.js`);
start(component, draw);
