// The three views: all there is, one federation or run, and runs side by side.

import { json, Refused } from "/page/api.js";
import { chartSection, colourOf } from "/page/charts.js";
import { css, csv, el, keep, number, percent, section, table } from "/page/dom.js";
import { edgeColour, MapPicture, MatrixPicture, saveCanvas } from "/page/pictures.js";
import { Source } from "/page/source.js";
import { TryPanel } from "/page/trying.js";

// What jobs do, in words, and the settings by which a policy plans again by itself.
const JOBS = { prepare: "policy", plan: "new plan", bounds: "certified optima" };
const REPLANS = ["replan_every", "replan_cost", "replan_change", "replan_absence"];
const LINES = ["solid", "dash", "dot", "dashdot"];
const SHAPES = ["circle", "square", "diamond", "cross", "triangle-up", "star"];

export async function overview(main, signal) {
  const federations = el("div", {}), runs = el("div", {}), chosen = new Set();
  const compare = el("button", { class: "main", type: "button", disabled: true,
    onclick: () => { location.hash = `#/compare/${[...chosen].map(encodeURIComponent).join("&")}`; } }, "Compare");
  const demo = el("button", { class: "main", type: "button", id: "demo", onclick: () => startDemo(demo) }, "Start a demo federation");
  main.replaceChildren(
    el("h1", {}, "Federations and runs"),
    el("section", {}, el("div", { class: "head" }, el("h2", {}, "Federations"), demo), federations),
    el("p"),
    el("section", {}, el("div", { class: "head" }, el("h2", {}, "Runs"), compare), runs));
  const update = async () => {
    const [known, found] = await Promise.all([json("GET", "/v1/federations"), json("GET", "/v1/runs").catch((error) => {
      if (error instanceof Refused && error.status === 403) return [];
      throw error;
    })]);
    const share = preparing(known.some((f) => f.state === "preparing") ? await json("GET", "/v1/jobs") : []);
    federations.replaceChildren(known.length
      ? el("div", { class: "scroll" }, table(["name", "policy", "rounds", "state"], known.map((f) => [
        el("a", { href: `#/federation/${encodeURIComponent(f.name)}` }, f.name), f.policy?.title ?? f.settings.policy, f.rounds,
        el("span", { class: f.state === "failed" ? "bad" : f.state === "ready" ? "good" : "soft", title: f.error }, share.has(f.name) ? `${f.state}: ${percent(share.get(f.name))}` : f.state)])))
      : el("p", { class: "soft" }, "None yet: start the demo, or create one with PUT /v1/federations/NAME."));
    runs.replaceChildren(found.length
      ? el("div", { class: "scroll" }, table(["run", "", "policy", "data", "rounds", "accuracy", "total cost", "state"], found.map((r) => {
        const box = el("input", { type: "checkbox", "aria-label": `Compare ${r.name}`, onchange: () => {
          if (box.checked) chosen.add(r.name); else chosen.delete(r.name);
          compare.disabled = chosen.size < 2;
        } });
        box.checked = chosen.has(r.name);
        return [el("a", { href: `#/run/${encodeURIComponent(r.name)}` }, r.name), box, r.policy ?? "", r.dataset ?? "",
          `${r.complete}/${r.rounds}`, percent(r.accuracy), number(r.cost),
          r.error ? el("span", { class: "bad", title: r.error }, "damaged")
            : r.running ? el("span", { class: "good" }, "going on")
              : r.complete >= r.rounds ? "finished" : "stopped"];
      })))
      : el("p", { class: "soft" }, "None under the folder of runs: stagewise simulate --out runs/a."));
  };
  await update();
  const again = async () => {
    if (signal.aborted) return;
    try { await update(); } catch { /* the service is away: it may come back */ }
    setTimeout(again, 2000);
  };
  setTimeout(again, 2000);
}

// How far the policies are that are being made, by federation.
const preparing = (jobs) => new Map(jobs.filter((job) => job.kind === "prepare" && job.state === "running")
  .map((job) => [job.federation, job.progress]));

async function startDemo(button) {
  button.disabled = true;
  button.textContent = "Making the plan …";
  await json("POST", "/v1/demo");
  for (;;) {
    const { state } = await json("GET", "/v1/federations/demo");
    if (state !== "preparing") break;
    const share = preparing(await json("GET", "/v1/jobs")).get("demo");
    button.textContent = `Making the plan … ${share === undefined ? "" : percent(share)}`;
    await new Promise((resolve) => setTimeout(resolve, 300));
  }
  location.hash = "#/federation/demo?play";
}

// Rounds drawn by the estimates of availability, as the page's own client.
async function drawRounds(source, count) {
  const next = source.decisions.length ? source.decisions.at(-1).round + 1 : 0;
  for (let round = next; round < next + count; round += 1) {
    const online = source.world.clients.filter((_, n) => Math.random() < source.world.likely[n]).map((c) => c.id);
    await json("POST", source.path("/decisions"), { round, online });
  }
}

export async function oneSource(main, kind, name, play, signal) {
  main.replaceChildren(el("p", { class: "soft" }, "Loading …"));
  const source = await new Source(kind, name).load();
  const { world } = source;
  let place = source.decisions.length - 1, timer = null, tried = null, bars = null, frame = null, rest = null, boundsAsked = false;
  const cards = el("div", { class: "cards" });
  const slider = el("input", { type: "range", min: 0, value: 0, "aria-label": "Round", oninput: () => select(slider.valueAsNumber) });
  const shown = el("output", {});
  const playing = el("button", { type: "button", id: "play", "aria-label": "Play", onclick: toggle }, "▶");
  const trying = new TryPanel(source, () => place, (result, down, online) => { tried = result && { result, down, online }; drawRound(); });
  const map = new MapPicture(source, (found) => trying.pick(found));
  const matrix = new MatrixPicture(source, (found) => select(found));
  const caption = el("p", { class: "soft" });
  const more = kind === "federation"
    ? el("button", { type: "button", id: "more", onclick: async () => {
      more.disabled = true;
      try { await drawRounds(source, 10); } catch (error) { verdict.textContent = error.message; } finally { more.disabled = false; }
    } }, "Draw and decide 10 rounds")
    : null;
  const replan = kind === "federation"
    ? el("button", { type: "button", id: "replan", onclick: () => json("POST", source.path("/plans"), {}).catch((error) => { verdict.textContent = error.message; }) }, "Plan again")
    : null;
  const prove = el("button", { type: "button", id: "prove", onclick: findOptima }, "Find certified optima");
  const checked = el("button", { type: "button", id: "check", onclick: check }, "Check");
  const verdict = el("span", { role: "status" });
  const working = el("span", { role: "status", id: "working" });
  const byRound = (field) => source.decisions.map((d) => d[field]);
  const rounds = () => source.decisions.map((d) => d.round);
  const colour = () => colourOf(source.decisions.at(-1)?.method ?? "");
  const line = (label, y, options = {}) => ({ name: label, x: rounds(), y, mode: "lines+markers",
    marker: { size: source.decisions.length > 60 ? 3 : 6 }, line: { color: colour() }, ...options });

  const charts = [
    chartSection("Accuracy by round", { x: "round", y: "test accuracy", draw(chart) {
      const known = source.records.filter((r) => r.accuracy !== null);
      chart.traces = known.length ? [{ x: known.map((r) => r.round), y: known.map((r) => r.accuracy), mode: "lines+markers", line: { color: colour() } }] : [];
    } }),
    chartSection("Cost of a round", { x: "round", y: "cost", draw(chart) {
      const symbols = source.decisions.map((d) => (d.feasible ? "circle" : "x"));
      chart.traces = source.decisions.length ? [line("decided", byRound("objective"), { marker: { size: 6, symbol: symbols } })] : [];
      const known = source.decisions.filter((d) => source.bounds.get(d.round)?.cost != null);
      if (known.length) chart.traces.push({ name: "certified optimum", x: known.map((d) => d.round), y: known.map((d) => source.bounds.get(d.round).cost),
        mode: "lines+markers", marker: { size: 6, symbol: "diamond-open" }, line: { dash: "dot", color: colourOf("exact") } });
    } }),
    chartSection("Delay of a round", { x: "round", y: "seconds", draw(chart) { chart.traces = source.decisions.length ? [line("delay", byRound("delay_s"))] : []; } }),
    chartSection("Energy of a round", { x: "round", y: "joules", draw(chart) { chart.traces = source.decisions.length ? [line("energy", byRound("energy_j"))] : []; } }),
    chartSection("Time of a decision", { x: "round", y: "milliseconds", yaxis: { type: "log" }, draw(chart) {
      chart.traces = source.decisions.length ? [line("decision", byRound("decision_ms"), { mode: "markers" })] : []; } }),
    chartSection("Fates of updates", { x: "round", y: "updates", draw(chart) {
      const fates = ["counted", "late", "rejected", "lost"], colours = [css("--good"), "#e69f00", "#cc79a7", css("--bad")];
      chart.traces = source.live.length ? fates.map((fate, n) => ({ name: fate, type: "bar", marker: { color: colours[n] },
        x: source.live.map((l) => l.round), y: source.live.map((l) => l.fates[fate] ?? 0) })) : [];
    } }),
  ];
  if (source.records.length) charts[4].classList.add("full");
  const edgeChart = (title, y, field, limit) => chartSection(title, { x: "edge", y, hover: "closest",
    xaxis: { type: "category" },
    draw(chart) {
      const edges = (tried?.result.decision ?? source.decisions[place])?.edges ?? [];
      chart.traces = edges.length ? [{ type: "bar", x: edges.map((e) => e.id), y: edges.map((e) => e[field]),
        marker: { color: edges.map((_, n) => edgeColour(n)) } }] : [];
    },
    shapes: () => {
      const value = limit();
      return value === null || value === undefined ? [] : [{ type: "line", xref: "paper", x0: 0, x1: 1, y0: value, y1: value, line: { dash: "dash", color: css("--bad"), width: 2 } }];
    } });
  const limitNow = (limit) => trying.fields.get(limit).field.valueAsNumber;
  const data = edgeChart("Data of every edge, and the least", "samples", "data", () => limitNow("data_min"));
  const kld = edgeChart("Divergence of every edge, and the largest", "KLD", "kld", () => (Number.isNaN(limitNow("kld_max")) ? null : limitNow("kld_max")));
  const key = (...texts) => el("div", { class: "legend" }, ...texts.map((text) => el("span", {}, text)));
  const legend = key("■ edge", "● trains, in the colour of its edge", "◆ stands in", "○ online, idle", "✕ offline", "⊠ edge out");
  const mapBox = section("Map", [["PNG", saveCanvas(map.canvas, "map.png")]], map.canvas, caption, legend);
  const matrixBox = section("Who was online, who trained", [["PNG", saveCanvas(matrix.canvas, "clients-by-rounds.png")], ["CSV", () => keep("clients-by-rounds.csv", matrixRows(), "text/csv")]],
    matrix.canvas, key("rows: clients, columns: rounds", "colour: trains, by edge", "grey: online, idle", "empty: offline"));
  matrixBox.classList.add("full");
  let planBox = [], planShown = null;
  const decisionBox = el("div", { class: "scroll" });
  const who = el("div", {});
  const tableBox = section("Rounds", [["CSV", () => keep("rounds.csv", csv(...roundRows()), "text/csv")]], decisionBox);
  tableBox.classList.add("full");
  const title = kind === "run" ? `Run ${name}` : `Federation ${name}`;
  main.replaceChildren(
    el("h1", {}, title), cards,
    el("p", { class: "actions" }, more, replan, prove, checked, verdict, working),
    el("div", { class: "player" }, playing, slider, shown),
    el("div", { class: "grid" }, mapBox, trying.element, data, kld, ...charts.slice(0, 5), charts[5], who, matrixBox, tableBox));

  // Sections of the plan that is followed now, and buttons for what can be asked: another plan unless the policy plans
  // again by itself, and rounds once there is a policy.
  function showPlan() {
    if (more) more.hidden = source.summary.state !== "ready";
    if (replan) replan.hidden = !source.plan || REPLANS.some((trigger) => source.summary.settings[trigger] !== null);
    if (source.plan === planShown) return;
    planShown = source.plan;
    planBox.forEach((old) => old.remove());
    planBox = planSection(source);
    tableBox.before(...planBox);
  }

  function summary() {
    const d = source.decisions, cost = d.reduce((sum, x) => sum + x.objective, 0);
    const accuracy = source.records.map((r) => r.accuracy).filter((a) => a !== null).at(-1);
    const gaps = d.filter((x) => x.feasible && source.bounds.get(x.round)?.cost).map((x) => x.objective / source.bounds.get(x.round).cost);
    const times = d.map((x) => x.decision_ms).sort((a, b) => a - b);
    const items = [
      [kind === "run" ? `${d.length} of ${source.summary.rounds}` : d.length, "rounds"],
      [d.at(-1)?.method ?? source.summary.policy?.title ?? source.summary.settings?.policy ?? source.summary.policy, "policy"],
      accuracy === undefined ? null : [percent(accuracy), "accuracy"],
      [number(cost), "total cost"],
      [`${d.filter((x) => x.feasible).length}/${d.length}`, "rounds within the limits"],
      gaps.length ? [(gaps.reduce((a, b) => a + b, 0) / gaps.length).toFixed(3), "cost over the optimum"] : null,
      [times.length ? number(times[Math.floor(times.length / 2)], 3) : "–", "decision (ms), median"],
      [`${world.clients.length} / ${world.edges.length}`, "clients / edges"],
    ];
    cards.replaceChildren(...items.filter(Boolean).map(([value, text]) => el("div", { class: "card" }, el("b", {}, String(value)), el("span", {}, text))));
  }

  function drawRound() {
    const d = tried?.result.decision ?? source.decisions[place];
    let states = source.states(place);
    if (tried) {
      states = states.slice();
      if (tried.online) { states.fill(-2); for (const id of tried.online) states[world.clientNumber.get(id)] = -1; }
      states.forEach((state, n) => { if (state >= 0) states[n] = -1; });
      for (const [id, edge] of Object.entries(d.assignment)) states[world.clientNumber.get(id)] = world.edgeNumber.get(edge);
    }
    map.draw(states, tried ? { edges: tried.down, links: [] } : source.down(place));
    if (d) {
      const serving = Object.keys(d.assignment).length, online = states.filter((s) => s !== -2).length;
      const stand = source.longTerm.size ? `, ${Object.keys(d.assignment).filter((id) => !source.longTerm.has(id)).length} stand in` : "";
      caption.textContent = `${tried ? "As tried: " : ""}${serving} train${stand}, ${online - serving} idle, ${states.length - online} offline; ${d.feasible ? "within the limits" : d.violations[0]}`;
      caption.className = d.feasible ? "soft" : "bad";
    } else caption.textContent = "No round is decided yet.";
    matrix.draw(place);
    clearTimeout(bars);
    // The bars of many edges take longer than a step of the slider may.
    bars = setTimeout(drawBars, world.edges.length > 20 ? 150 : 0);
    const total = source.decisions.length;
    slider.max = Math.max(0, total - 1);
    slider.value = place;
    slider.disabled = total < 2;
    shown.textContent = total ? `round ${source.decisions[place].round}${kind === "run" ? ` of ${source.summary.rounds}` : ""}` : "no rounds";
  }

  function drawBars() {
    data.redraw();
    kld.redraw();
  }

  function roundRows() {
    const accuracy = new Map(source.records.map((r) => [r.round, r.accuracy]));
    const rows = source.decisions.map((d) => [d.round, accuracy.get(d.round) ?? null, d.objective, source.bounds.get(d.round)?.cost ?? null,
      d.delay_s, d.energy_j, Object.keys(d.assignment).length, d.feasible ? "yes" : "no", d.decision_ms]);
    return [["round", "accuracy", "cost", "optimum", "delay (s)", "energy (J)", "clients", "feasible", "decision (ms)"], rows];
  }

  function matrixRows() {
    const names = world.clients.map((c) => c.id), columns = source.decisions.map((_, p) => source.states(p));
    const word = (s) => (s === -2 ? "offline" : s === -1 ? "online" : world.edges[s].id);
    return csv(["client", ...rounds()], names.map((id, n) => [id, ...columns.map((c) => word(c[n]))]));
  }

  function drawTable() {
    const [headings, rows] = roundRows();
    decisionBox.replaceChildren(table(headings, rows.slice(-500).reverse().map((row) => row.map((v, n) =>
      (typeof v === "string" ? v : n === 1 ? percent(v) : number(v))))));
    if (source.status) who.replaceChildren(section("Who is up", [], el("p", {}, `phase: ${source.status.phase}, round ${source.status.round}`),
      el("div", { class: "scroll" }, table(["edge", "clients that answered through it"], world.edges.map((e) => [e.id,
        Object.entries(source.status.reached).filter(([, via]) => via.includes(e.id)).length])))));
  }

  function drawAll() {
    summary();
    drawRound();
    // Map and matrix are shown before charts are begun with.
    clearTimeout(rest);
    rest = setTimeout(async () => {
      if (signal.aborted) return;
      drawTable();
      await Promise.all(charts.map((made) => made.redraw()));
      if (!boundsAsked && !signal.aborted) {
        boundsAsked = true;
        await source.updateBounds();
        if (!signal.aborted && source.bounds.size) drawAll();
      }
    });
  }

  function select(found) {
    if (found < 0 || found >= source.decisions.length) return;
    place = found;
    tried = null;
    if (trying.active() && !timer) trying.later();
    frame ??= requestAnimationFrame(() => { frame = null; drawRound(); });
  }

  function toggle() {
    if (timer) { clearInterval(timer); timer = null; playing.textContent = "▶"; playing.setAttribute("aria-label", "Play"); return; }
    playing.textContent = "❚❚";
    playing.setAttribute("aria-label", "Pause");
    if (place >= source.decisions.length - 1) place = -1;
    timer = setInterval(() => {
      if (signal.aborted || place >= source.decisions.length - 1) { toggle(); return; }
      select(place + 1);
    }, Math.max(60, Math.min(500, 12000 / Math.max(1, source.decisions.length))));
  }

  async function findOptima() {
    prove.disabled = true;
    try {
      const job = await json("POST", source.path("/bounds"));
      for (;;) {
        const { state, progress, error } = await json("GET", `/v1/jobs/${job.number}`);
        verdict.textContent = error ?? `optima: ${percent(progress)}`;
        await source.updateBounds();
        drawAll();
        if (state === "done" || state === "failed" || signal.aborted) break;
        await new Promise((resolve) => setTimeout(resolve, 700));
      }
    } catch (error) { verdict.textContent = error.message; } finally { prove.disabled = false; }
  }

  async function check() {
    verdict.textContent = "checking …";
    const found = [];
    for (let first = 0; first <= (source.decisions.at(-1)?.round ?? -1); first += 100) {
      found.push(...await json("GET", source.path("/checks", `first=${first}&count=100`)));
    }
    verdict.textContent = found.length ? found.slice(0, 3).join("; ") : "Every figure of every round is true.";
    verdict.className = found.length ? "bad" : "good";
  }

  const changed = () => {
    const follows = place >= slider.max || place < 0;
    if (follows && !timer && !tried) place = source.decisions.length - 1;
    if (place < 0) place = source.decisions.length - 1;
    showPlan();
    drawAll();
  };
  main.redraw = drawAll;
  showPlan();
  drawAll();
  source.watch(changed, ({ kind: what, state, progress, error }) => {
    working.textContent = error ?? (state === "done" ? "" : `${JOBS[what]}: ${state === "queued" ? "waits" : percent(progress)}`);
    working.className = error ? "bad" : "soft";
  }, signal);
  const running = kind === "federation" || source.summary.running || source.summary.complete < source.summary.rounds;
  document.getElementById("live").textContent = running ? "● live" : "";
  if (play && source.decisions.length === 0) await drawRounds(source, 30);
}

function planSection(source) {
  const { plan, world } = source;
  if (!plan) return [];
  const edges = plan.edges.map((e) => [e.id, e.clients, percent(e.kld_risk), percent(e.data_risk),
    e.kld_risk > world.limits.kld_risk + 1e-12 || e.data_risk > world.limits.data_risk + 1e-12 ? "above a limit" : "within"]);
  const clients = Object.entries(plan.assignment).map(([id, edge]) => {
    const n = world.clientNumber.get(id);
    return [id, edge, percent(world.likely[n]), world.clients[n].label_counts.reduce((a, b) => a + b, 0)];
  });
  const headings = ["client", "edge", "online", "data"];
  return [
    section("Plan A: risks of every edge", [["CSV", () => keep("plan-edges.csv", csv(["edge", "clients", "kld_risk", "data_risk"], plan.edges.map((e) => [e.id, e.clients, e.kld_risk, e.data_risk])), "text/csv")]],
      el("p", { class: "soft" }, `${clients.length} long-term clients by ${plan.method}; limits of risk ${percent(world.limits.kld_risk)} and ${percent(world.limits.data_risk)}`),
      el("div", { class: "scroll" }, table(["edge", "clients", "risk of KLD", "risk of data", ""], edges))),
    section("Plan A: long-term clients", [["CSV", () => keep("plan-clients.csv", csv(headings, clients), "text/csv")]],
      el("div", { class: "scroll" }, table(headings, clients.slice(0, 1000)))),
  ];
}

export async function compareRuns(main, names) {
  main.replaceChildren(el("p", { class: "soft" }, "Loading …"));
  const sources = await Promise.all(names.map((name) => new Source("run", name).load()));
  const looks = sources.map((source, n) => ({ name: source.name, mode: "lines+markers", marker: { symbol: SHAPES[n % SHAPES.length], size: 6 },
    line: { color: colourOf(source.decisions.at(-1)?.method ?? ""), dash: LINES[n % LINES.length] } }));
  const known = (source) => source.records.filter((r) => r.accuracy !== null);
  const spent = (source) => { let sum = 0; return source.records.map((r) => (sum += r.objective)); };
  const chart = (title, x, y, points) => chartSection(title, { x, y, hover: "closest", draw(made) {
    made.traces = sources.map((source, n) => ({ ...looks[n], ...points(source) }));
  } });
  const charts = [
    chart("Accuracy by round", "round", "test accuracy", (s) => ({ x: known(s).map((r) => r.round), y: known(s).map((r) => r.accuracy) })),
    chart("Accuracy by what the rounds have cost", "cost so far", "test accuracy", (s) => {
      const sums = spent(s), places = s.records.map((r, n) => [r, n]).filter(([r]) => r.accuracy !== null);
      return { x: places.map(([, n]) => sums[n]), y: places.map(([r]) => r.accuracy) };
    }),
    chart("Cost of a round", "round", "cost", (s) => ({ x: s.records.map((r) => r.round), y: s.records.map((r) => r.objective) })),
    chart("Time of a decision", "round", "milliseconds", (s) => ({ x: s.records.map((r) => r.round), y: s.records.map((r) => r.decision_ms), mode: "markers" })),
  ];
  const mean = (values) => (values.length ? values.reduce((a, b) => a + b, 0) / values.length : null);
  const headings = ["run", "policy", "rounds", "accuracy", "total cost", "delay (s)", "energy (J)", "clients", "feasible", "decision (ms)"];
  const rows = sources.map((s) => [s.name, s.decisions.at(-1)?.method ?? "", s.records.length, known(s).at(-1)?.accuracy ?? null, spent(s).at(-1) ?? 0,
    mean(s.records.map((r) => r.delay_s)), mean(s.records.map((r) => r.energy_j)), mean(s.records.map((r) => r.clients)),
    `${s.records.filter((r) => r.feasible).length}/${s.records.length}`, mean(s.records.map((r) => r.decision_ms))]);
  const tableBox = section("In figures: means over rounds", [["CSV", () => keep("runs.csv", csv(headings, rows), "text/csv")]],
    el("div", { class: "scroll" }, table(headings, rows.map((row) => row.map((v, n) => (typeof v === "string" ? v : n === 3 ? percent(v) : number(v)))))));
  tableBox.classList.add("full");
  main.replaceChildren(el("h1", {}, "Runs side by side"), el("div", { class: "grid" }, tableBox, ...charts));
  main.redraw = () => charts.forEach((made) => made.redraw());
  main.redraw();
}
