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

// Charts that are to be drawn, one after the other: whoever moves the slider meanwhile waits for one at the most.
const waiting = new Set();
let drawing = null;

async function drawWaiting() {
  try {
    const { react } = await plotly();
    while (waiting.size) {
      const made = nearest();
      waiting.delete(made);
      await (fromView(made) > 0 ? idle() : nextFrame());
      if (open.has(made)) made.draw(react);
    }
  } finally { drawing = null; }
}

// How far a section is from what is seen, in pixels; 0 where a part of it is.
function fromView(made) {
  const { top, bottom } = made.getBoundingClientRect();
  return Math.max(0, top - innerHeight, -bottom);
}

const nearest = () => [...waiting].reduce((best, made) => (fromView(made) < fromView(best) ? made : best));
const nextFrame = () => new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
const idle = () => new Promise((resolve) => (window.requestIdleCallback ?? setTimeout)(resolve, { timeout: 500 }));

// A section with a chart; `draw(chart)` fills chart.traces from what is known now.
export function chartSection(title, chart) {
  const box = el("div", { class: "chart", role: "img", "aria-label": title });
  const name = title.toLowerCase().replace(/[^a-z0-9]+/g, "-");
  const rows = () => {
    const found = chart.traces.flatMap((trace) => trace.x.map((x, place) => [trace.name ?? title, x, trace.y[place]]));
    keep(`${name}.csv`, csv(["series", chart.x, chart.y], found), "text/csv");
  };
  const picture = (format) => async () => {
    await drawing;
    (await plotly()).downloadImage(box, { format, width: 1000, height: 560, filename: name });
  };
  const made = section(title, [["PNG", picture("png")], ["SVG", picture("svg")], ["CSV", rows]], box);
  made.draw = (react) => {
    if (chart.traces.length) react(box, chart.traces, layoutOf(chart), { displayModeBar: false, responsive: true });
  };
  // What is known now is drawn soon; the promise is kept when all that waits is.
  made.redraw = () => {
    chart.draw(chart);
    made.hidden = chart.traces.length === 0;
    if (made.hidden) return drawing;
    waiting.add(made);
    drawing ??= drawWaiting();
    return drawing;
  };
  open.add(made);
  return made;
}

export function closeCharts() { open.clear(); waiting.clear(); }
