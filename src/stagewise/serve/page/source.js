// What there is to look at: a federation or a run, from the same files.

import { ask, events, json, lines, Refused } from "/page/api.js";

const PART = 1000;
// What is new is fetched at once, but at most this often: watching must not cost a run its processor.
const UPDATE_MS = 2000;

// Positions, limits and numbers of a scenario, in arrays that can be drawn quickly.
function worldOf(scenario) {
  const clients = scenario.clients, edges = scenario.edges;
  const edgeNumber = new Map(edges.map((edge, number) => [edge.id, number]));
  const placed = clients.every((c) => c.x != null && c.y != null) && edges.every((e) => e.x != null);
  const likely = clients.map((c) => c.online_probability
    ?? [...(c.history ?? "1")].filter((d) => d === "1").length / (c.history ?? "1").length);
  return {
    clients, edges, edgeNumber, placed, likely, limits: scenario.limits, weights: scenario.weights,
    clientNumber: new Map(clients.map((client, number) => [client.id, number])),
  };
}

export class Source {
  constructor(kind, name) {
    this.kind = kind;
    this.name = name;
    this.base = kind === "run" ? "/v1/run" : `/v1/federations/${encodeURIComponent(name)}`;
    this.query = kind === "run" ? `?run=${encodeURIComponent(name)}` : "";
    this.decisions = []; this.online = []; this.records = []; this.bounds = new Map(); this.live = [];
    this.longTerm = new Map();
    this.known = [];
  }

  path(what, more = "") {
    const query = [this.query.slice(1), more].filter(Boolean).join("&");
    return `${this.base}${what}${query ? `?${query}` : ""}`;
  }

  file(name, part = "") { return this.path(`/files/${name}`, part); }

  has(name) { return this.summary.files.includes(name); }

  async load() {
    this.summary = await json("GET", this.path(""));
    const address = this.kind === "run" ? this.file("scenario.json") : this.path("/scenario");
    const [answer] = await Promise.all([ask("GET", address), this.loadPlan(), this.#more()]);
    if (answer.headers.get("Content-Type") !== "application/json") throw new Error(
      "The scenario is in the binary form, which this page does not read.");
    this.world = worldOf(await answer.json());
    return this;
  }

  async loadPlan() {
    if (this.kind === "run") this.plan = this.has("plan.json") ? await json("GET", this.file("plan.json")) : null;
    else {
      const plans = await json("GET", this.path("/plans"));
      const followed = plans.find((plan) => plan.followed);
      this.plan = followed ? await json("GET", this.path(`/plans/${followed.number}/plan.json`)) : null;
    }
    this.longTerm = new Map(Object.entries(this.plan?.assignment ?? {}));
  }

  // Fetch what is new.
  async update() {
    this.summary = await json("GET", this.path(""));
    await this.#more();
  }

  async #more() {
    if (this.kind === "run") await this.#moreOfRun();
    else await this.#moreOfFederation();
  }

  // From the last line that is known: where it is another one now, the run went back and all is fetched again.
  async #moreOfRun() {
    const known = this.decisions.length, { complete, deployed, changed } = this.summary;
    if (deployed) this.status = this.has("status.json") ? await json("GET", this.file("status.json")) : null;
    if (complete === known && changed === this.changed) return;
    const first = Math.max(0, known - 1), part = `first=${first}&count=${Math.max(1, complete - first)}`;
    const fetched = (name) => (this.has(name) ? lines(this.file(name, part)) : []);
    const [records, decisions, online, live] = await Promise.all(
      ["rounds.jsonl", "decisions.jsonl", "online.jsonl", ...(deployed ? ["live.jsonl"] : [])].map(fetched));
    if (known && (complete < known || JSON.stringify(decisions[0]) !== JSON.stringify(this.decisions.at(-1)))) {
      this.decisions = []; this.online = []; this.records = []; this.live = []; this.known = [];
      await this.#moreOfRun();
      return;
    }
    this.changed = changed;
    const after = Math.min(decisions.length, online.length, records.length);
    for (const [all, more] of [[this.records, records], [this.decisions, decisions], [this.online, online], [this.live, live ?? []]]) {
      all.splice(first, Infinity, ...more.slice(0, after));
    }
  }

  async #moreOfFederation() {
    for (;;) {
      const first = this.decisions.length ? this.decisions.at(-1).round + 1 : 0;
      const part = `first=${first}&count=${PART}`;
      const [decisions, online] = await Promise.all(
        [lines(this.path("/decisions", part)), lines(this.path("/online", part))]);
      const known = Math.min(decisions.length, online.length);
      this.decisions.push(...decisions.slice(0, known));
      this.online.push(...online.slice(0, known));
      if (decisions.length < PART) break;
    }
  }

  // The certified optima that are known by now.
  async updateBounds() {
    for (const bound of await json("GET", this.path("/bounds"))) this.bounds.set(bound.round, bound);
  }

  // Calls `changed` when something new was fetched, and `jobTold` with what is told of jobs.
  watch(changed, jobTold, signal) {
    const newest = this.decisions.length ? this.decisions.at(-1).round : -1;
    const after = this.kind === "run" ? newest : this.summary.last;
    let wanted = false, planned = false, going = false;
    const fetchNew = async (withPlan) => {
      try {
        if (withPlan) await this.loadPlan();
        await this.update();
        return true;
      } catch (error) {
        // One that was removed is not asked for again; a service that is away may come back.
        wanted = !(error instanceof Refused && [403, 404].includes(error.status));
        planned ||= withPlan;
        return false;
      }
    };
    const follow = async () => {
      going = true;
      try {
        while (wanted && !signal.aborted) {
          const withPlan = planned;
          wanted = planned = false;
          const fetched = await fetchNew(withPlan);
          if (fetched && !signal.aborted) changed();
          if (fetched || wanted) await new Promise((resolve) => setTimeout(resolve, UPDATE_MS));
        }
      } finally { going = false; }
    };
    events(this.path("/events"), after, (kind, data) => {
      const prepared = kind === "job" && data.kind === "prepare" && data.state === "done" && this.summary.state === "preparing";
      if (kind === "job") jobTold(data);
      if (kind === "job" && !prepared) return;
      wanted = true;
      planned ||= kind === "plan" || prepared;
      if (!going) follow();
    }, signal);
  }

  // Who does what in a round: -2 offline, -1 idle, else the number of the edge. Not to be changed.
  states(place) {
    return (this.known[place] ??= this.#statesOf(place));
  }

  #statesOf(place) {
    const { clientNumber, edgeNumber, clients } = this.world;
    const states = new Int16Array(clients.length).fill(-2);
    if (place < 0) return states.fill(-1);
    const line = this.online[place], { assignment } = this.decisions[place];
    for (const id of Array.isArray(line) ? line : line.online) states[clientNumber.get(id)] = -1;
    for (const id in assignment) states[clientNumber.get(id)] = edgeNumber.get(assignment[id]);
    return states;
  }

  // The edges that are not there in a round, and the links that are down.
  down(place) {
    const line = place < 0 ? [] : this.online[place];
    const down = Array.isArray(line) ? [] : line.down ?? [];
    return Array.isArray(down)
      ? { edges: new Set(down), links: [] }
      : { edges: new Set(), links: Object.entries(down).flatMap(([c, edges]) => edges.map((e) => [c, e])) };
  }
}
