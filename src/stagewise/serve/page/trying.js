// What if: other limits, weights, risks, estimates and outages; decision, cost and optimum at once.

import { json } from "/page/api.js";
import { csv, el, keep, number, section, table } from "/page/dom.js";

const LIMITS = [
  ["kld_max", "limits", "Divergence, at most (kld_max)", 0.05],
  ["data_min", "limits", "Data, at least (data_min)", 100],
  ["kld_risk", "limits", "Plan: risk of kld_max", 0.05],
  ["data_risk", "limits", "Plan: risk of data_min", 0.05],
  ["delay", "weights", "Weight of delay", 0.1],
  ["energy", "weights", "Weight of energy", 0.1],
  ["continuity", "weights", "Weight of continuity", 0.1],
];

const MANY = 500;
const MOST = 20000;

const rounded = (value) => Math.round(1000 * value) / 1000;

export class TryPanel {
  constructor(source, place, shown) {
    this.source = source;
    this.place = place;
    this.shown = shown;
    this.fields = new Map();
    this.downs = new Map();
    this.estimates = new Map();
    this.switched = new Map();
    this.result = el("div", { "aria-live": "polite" }, el("p", { class: "soft" },
      "Change a value: the selected round is decided again, and its certified optimum found beside it. Nothing is kept."));
    const { world } = source;
    const form = el("div", { class: "form" }, ...LIMITS.map(([name, group, text, step]) => {
      const usual = world[group][name];
      const field = el("input", { type: "number", step, min: 0, value: usual ?? "", placeholder: "none",
        oninput: () => this.later() });
      this.fields.set(name, { field, group, usual });
      return el("label", {}, text, field);
    }));
    const edges = el("fieldset", {}, el("legend", {}, "Edges that are out (or click one on the map)"), el("div", { class: "boxes" }, ...world.edges.map((edge) => {
      const box = el("input", { type: "checkbox", onchange: () => this.later() });
      this.downs.set(edge.id, box);
      return el("label", {}, box, edge.id);
    })));
    this.client = el("select", { "aria-label": "Client", onchange: () => this.#showClient(), onfocus: () => this.#offer(Infinity) });
    this.#offer(MANY);
    this.online = el("select", { "aria-label": "In this round", onchange: () => this.#switch() },
      ...["as it was", "online", "offline"].map((text) => el("option", {}, text)));
    this.likely = el("input", { type: "number", min: 0, max: 1, step: 0.05, "aria-label": "Availability",
      oninput: () => this.#estimate() });
    const clients = el("fieldset", {}, el("legend", {}, "A client (or click one on the map)"), el("div", { class: "form" },
      el("label", {}, "Client", this.client), el("label", {}, "In this round", this.online),
      el("label", {}, "Availability (estimate)", this.likely)));
    this.element = section("Try it", [["Reset", () => this.reset()], ["CSV", () => this.#keep()]],
      form, edges, clients, this.result);
    this.element.id = "try";
    this.#showClient();
  }

  // Put clients into the list to choose from: many of them only once somebody wants to choose.
  #offer(count) {
    const offered = this.client.options.length, { clients } = this.source.world;
    this.client.append(...clients.slice(offered, Math.min(count, MOST)).map(({ id }) => new Option(id, id)));
  }

  pick({ client, edge }) {
    const { world } = this.source;
    if (edge !== undefined) {
      const box = this.downs.get(world.edges[edge].id);
      box.checked = !box.checked;
      const list = box.closest(".boxes");
      list.scrollTop = box.parentElement.offsetTop - list.offsetTop - 20;
      this.later();
      return;
    }
    const id = world.clients[client].id;
    if (client >= this.client.options.length) this.#offer(Infinity);
    this.client.value = id;
    const now = this.switched.get(id) ?? (this.source.states(this.place())[client] !== -2);
    this.switched.set(id, !now);
    this.#showClient();
    this.later();
  }

  reset() {
    for (const { field, usual } of this.fields.values()) field.value = usual ?? "";
    for (const box of this.downs.values()) box.checked = false;
    this.estimates.clear();
    this.switched.clear();
    this.#showClient();
    this.shown(null);
    this.result.replaceChildren(el("p", { class: "soft" }, "Nothing is changed."));
  }

  #showClient() {
    const id = this.client.value, place = this.source.world.clientNumber.get(id);
    this.online.value = this.switched.has(id) ? (this.switched.get(id) ? "online" : "offline") : "as it was";
    this.likely.value = this.estimates.get(id) ?? rounded(this.source.world.likely[place]);
  }

  #switch() {
    if (this.online.value === "as it was") this.switched.delete(this.client.value);
    else this.switched.set(this.client.value, this.online.value === "online");
    this.later();
  }

  #estimate() {
    const id = this.client.value, value = this.likely.valueAsNumber;
    if (Number.isNaN(value) || value === rounded(this.source.world.likely[this.source.world.clientNumber.get(id)])) this.estimates.delete(id);
    else this.estimates.set(id, value);
    this.later();
  }

  // Whether anything is changed.
  active() {
    const { limits, weights, down, online, online_probability: likely } = this.body();
    return Boolean(Object.keys(limits).length || Object.keys(weights).length || down || online || likely);
  }

  later() {
    clearTimeout(this.due);
    this.due = setTimeout(() => this.run(), 150);
  }

  body() {
    const body = { limits: {}, weights: {} };
    for (const [name, { field, group, usual }] of this.fields) {
      if (!Number.isNaN(field.valueAsNumber) && field.valueAsNumber !== usual) body[group][name] = field.valueAsNumber;
    }
    const place = this.place();
    if (place >= 0) body.round = this.source.decisions[place].round;
    const down = [...this.downs].filter(([, box]) => box.checked).map(([id]) => id);
    if (down.length) body.down = [...this.source.down(place).edges, ...down].filter((id, n, all) => all.indexOf(id) === n);
    if (this.switched.size) {
      const states = this.source.states(place);
      body.online = this.source.world.clients
        .filter((client, n) => this.switched.get(client.id) ?? states[n] !== -2).map((client) => client.id);
    }
    if (this.estimates.size) body.online_probability = Object.fromEntries(this.estimates);
    return body;
  }

  async run() {
    const asked = (this.asked = (this.asked ?? 0) + 1), began = performance.now();
    this.element.setAttribute("aria-busy", "true");
    try {
      const body = this.body();
      const tried = await json("POST", this.source.path("/try"), body);
      if (asked !== this.asked) return;
      this.tried = tried;
      this.#show(tried, performance.now() - began);
      this.shown(tried, new Set(body.down ?? this.source.down(this.place()).edges), body.online);
    } catch (error) {
      if (asked === this.asked) this.result.replaceChildren(el("p", { class: "bad" }, error.message));
    } finally {
      if (asked === this.asked) this.element.removeAttribute("aria-busy");
    }
  }

  #show({ decision, optimum, plan, new_plan: newPlan }, ms) {
    const place = this.place();
    const before = place >= 0 ? this.source.decisions[place] : null;
    const bound = before ? this.source.bounds.get(before.round) : null;
    const best = optimum.lower_bound === null && optimum.cost === null ? "none within the limits" : number(optimum.cost ?? optimum.lower_bound);
    const proven = optimum.cost !== null && optimum.lower_bound >= 0.999 * optimum.cost;
    const clients = (d) => (d ? Object.keys(d.assignment).length : "–");
    const rows = [
      ["cost", number(before?.objective), number(decision.objective)],
      [proven ? "certified optimum" : "best known (bound in CSV)", number(bound?.cost), best],
      ["delay (s)", number(before?.delay_s), number(decision.delay_s)],
      ["energy (J)", number(before?.energy_j), number(decision.energy_j)],
      ["clients that train", clients(before), clients(decision)],
      ["within the limits", before ? (before.feasible ? "yes" : "no") : "–", decision.feasible ? "yes" : "no"],
    ];
    if (plan) rows.push(["long-term clients in the plan", this.source.longTerm.size || "–", Object.keys(plan.assignment).length]);
    this.rows = rows;
    const note = newPlan ? "With a new plan by local search, and repair. " : "With the plan in force. ";
    this.result.replaceChildren(
      el("div", { class: "scroll" }, table(["", "as it was", "as tried"], rows)),
      decision.feasible ? "" : el("p", { class: "bad" }, decision.violations.slice(0, 4).join("; ")),
      el("p", { class: "soft" }, `${note}${Math.round(ms)} ms.`));
  }

  #keep() {
    if (this.rows) keep("tried.csv", csv(["", "as it was", "as tried"], this.rows), "text/csv");
  }
}
