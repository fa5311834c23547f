// Which view is shown, light and dark, and keys.

import { closeCharts } from "/page/charts.js";
import { el } from "/page/dom.js";
import { compareRuns, oneSource, overview } from "/page/views.js";

const main = document.getElementById("main");
const crumb = document.getElementById("crumb");
const root = document.documentElement;
let leaving = new AbortController();

function setTheme(theme) {
  root.dataset.theme = theme;
  main.redraw?.();
}

const wanted = matchMedia("(prefers-color-scheme: dark)");
setTheme(localStorage.getItem("theme") ?? (wanted.matches ? "dark" : "light"));
wanted.addEventListener("change", () => { if (!localStorage.getItem("theme")) setTheme(wanted.matches ? "dark" : "light"); });
document.getElementById("theme").addEventListener("click", () => {
  const theme = root.dataset.theme === "dark" ? "light" : "dark";
  localStorage.setItem("theme", theme);
  setTheme(theme);
});

async function show() {
  leaving.abort();
  leaving = new AbortController();
  closeCharts();
  main.redraw = null;
  document.getElementById("live").textContent = "";
  const [, kind = "", rest = ""] = location.hash.split(/^#\/([a-z]*)\/?/);
  const [path, query] = rest.split("?");
  const name = decodeURIComponent(path);
  crumb.textContent = kind && kind !== "compare" ? `/ ${kind} / ${name}` : kind ? `/ ${kind}` : "";
  document.title = name && kind !== "compare" ? `${name} – Stagewise` : "Stagewise";
  const { signal } = leaving;
  try {
    if (kind === "compare") await compareRuns(main, path.split("&").map(decodeURIComponent));
    else if (kind === "run" || kind === "federation") await oneSource(main, kind, name, query === "play", signal);
    else await overview(main, signal);
  } catch (error) {
    if (!signal.aborted) main.replaceChildren(el("h1", {}, "This cannot be shown"), el("p", { class: "bad" }, error.message), el("a", { href: "#/" }, "All federations and runs"));
  }
}

addEventListener("hashchange", show);
let resized = null;
addEventListener("resize", () => { clearTimeout(resized); resized = setTimeout(() => main.redraw?.(), 120); });
// Keys: space plays, arrows move through the rounds, d is dark.
addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest?.("input, select, button, a, dialog") && event.target.type !== "range") return;
  const slider = document.querySelector(".player input");
  if (event.key === "d") document.getElementById("theme").click();
  else if (event.key === " " && slider) { event.preventDefault(); document.getElementById("play").click(); }
  else if (["ArrowLeft", "ArrowRight"].includes(event.key) && slider && event.target !== slider) {
    slider.value = slider.valueAsNumber + (event.key === "ArrowRight" ? 1 : -1);
    slider.dispatchEvent(new Event("input"));
  }
});
show();
