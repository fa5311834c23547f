// Charts by plotly.js, in the colours of the page.

import { METHODS, OTHER } from "/page/colours.js";
import { css, csv, el, keep, section } from "/page/dom.js";

export const colourOf = (method) => METHODS[method] ?? OTHER;

const open = new Set();

// plotly.js takes longer to start than everything else on the page: it is loaded when a chart is first drawn.
let library = null;
function plotly() {
  library ??= new Promise((resolve, reject) => {
    const script = el("script", { src: "/page/plotly.min.js" });
    script.onload = () => resolve(window.Plotly);
    script.onerror = () => { library = null; reject(new Error("plotly.min.js cannot be loaded")); };
    document.head.append(script);
  });
  return library;
}

function layoutOf(chart) {
  const axis = { gridcolor: css("--grid"), zerolinecolor: css("--line"), linecolor: css("--line"), automargin: true };
  return {
    margin: { l: 48, r: 10, t: 6, b: 38 },
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { color: css("--text"), size: 12, family: "system-ui, sans-serif" },
    legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0 },
    hovermode: chart.hover ?? "x unified",
    hoverlabel: { bgcolor: css("--panel"), font: { color: css("--text") } },
    xaxis: { ...axis, title: { text: chart.x }, ...(chart.xaxis ?? {}) },
    yaxis: { ...axis, title: { text: chart.y }, ...(chart.yaxis ?? {}) },
    barmode: "group", shapes: chart.shapes?.() ?? [], showlegend: chart.traces.length > 1,
  };
}

// A section with a chart; `draw(chart)` fills chart.traces from what is known now.
export function chartSection(title, chart) {
  const box = el("div", { class: "chart", role: "img", "aria-label": title });
  const name = title.toLowerCase().replace(/[^a-z0-9]+/g, "-");
  const rows = () => {
    const found = chart.traces.flatMap((trace) => trace.x.map((x, place) => [trace.name ?? title, x, trace.y[place]]));
    keep(`${name}.csv`, csv(["series", chart.x, chart.y], found), "text/csv");
  };
  const picture = (format) => async () =>
    (await plotly()).downloadImage(box, { format, width: 1000, height: 560, filename: name });
  const made = section(title, [["PNG", picture("png")], ["SVG", picture("svg")], ["CSV", rows]], box);
  made.redraw = async () => {
    chart.draw(chart);
    made.hidden = chart.traces.length === 0;
    if (made.hidden) return;
    const { react } = await plotly();
    if (open.has(made) && chart.traces.length) react(box, chart.traces, layoutOf(chart), { displayModeBar: false, responsive: true });
  };
  open.add(made);
  return made;
}

export function closeCharts() { open.clear(); }
export function redrawCharts() { for (const made of open) made.redraw(); }
