// The map and the matrix: drawn by hand, so that ten thousand clients can be moved through.

import { EDGES } from "/page/colours.js";
import { css, el, keep, percent, showTip } from "/page/dom.js";

export const edgeColour = (number) => EDGES[number % EDGES.length];

// The clients that train, colour by colour: changing it thousands of times takes longer than drawing.
function byColour(states, draw) {
  const groups = EDGES.map(() => []);
  states.forEach((edge, client) => { if (edge >= 0) groups[edge % EDGES.length].push(client); });
  groups.forEach((clients, number) => draw(EDGES[number], clients));
}

function fitted(canvas, height) {
  const scale = devicePixelRatio || 1;
  const width = canvas.clientWidth || 300;
  if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
    canvas.style.height = `${height}px`;
  }
  const context = canvas.getContext("2d");
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, width, height);
  return [context, width, height];
}

export const saveCanvas = (canvas, name) => () => {
  const copy = el("canvas");
  copy.width = canvas.width;
  copy.height = canvas.height;
  const context = copy.getContext("2d");
  context.fillStyle = css("--panel");
  context.fillRect(0, 0, copy.width, copy.height);
  context.drawImage(canvas, 0, 0);
  copy.toBlob((blob) => keep(name, blob));
};

export class MapPicture {
  constructor(source, picked) {
    this.source = source;
    this.canvas = el("canvas", { role: "img", "aria-label": "Map of clients and edges" });
    const world = source.world;
    this.spots = world.placed
      ? world.clients.map((c) => [c.x, c.y])
      : world.clients.map((_, n) => this.#onCircle(n, world.clients.length, 1));
    this.edgeSpots = world.placed
      ? world.edges.map((e) => [e.x, e.y])
      : world.edges.map((_, n) => this.#onCircle(n, world.edges.length, 0.45));
    const all = [...this.spots, ...this.edgeSpots];
    const span = (axis) => all.reduce(([low, high], spot) =>
      [Math.min(low, spot[axis]), Math.max(high, spot[axis])], [Infinity, -Infinity]);
    this.box = [span(0), span(1)];
    this.canvas.addEventListener("mousemove", (event) => this.#hover(event));
    this.canvas.addEventListener("mouseleave", () => showTip(""));
    this.canvas.addEventListener("click", (event) => {
      const found = this.#nearest(event);
      if (found) picked(found);
    });
  }

  #onCircle(number, count, radius) {
    const angle = (2 * Math.PI * number) / count;
    return [radius * Math.cos(angle), radius * Math.sin(angle)];
  }

  draw(states, down) {
    const width = this.canvas.clientWidth || 300;
    const [context, w, h] = fitted(this.canvas, Math.max(260, Math.min(460, 0.78 * width)));
    const { source } = this, { world } = source;
    this.states = states;
    const pad = 18, [[x0, x1], [y0, y1]] = this.box;
    const scale = Math.min((w - 2 * pad) / (x1 - x0 || 1), (h - 2 * pad) / (y1 - y0 || 1));
    const left = (w - scale * (x1 - x0)) / 2, top = (h - scale * (y1 - y0)) / 2;
    const at = ([x, y]) => [left + scale * (x - x0), h - top - scale * (y - y0)];
    const many = world.clients.length > 600;
    const size = many ? Math.max(1.1, 3.6 * Math.sqrt(600 / world.clients.length)) : 4.6;
    if (this.size !== `${w} ${h}`) {
      this.drawn = this.spots.map(at);
      this.drawnEdges = this.edgeSpots.map(at);
      this.size = `${w} ${h}`;
    }
    const spots = this.drawn, edgeSpots = this.drawnEdges;
    const panel = css("--panel"), bad = css("--bad"), text = css("--text");
    context.lineWidth = many ? 0.5 : 1.1;
    context.globalAlpha = many ? 0.35 : 0.6;
    byColour(states, (colour, clients) => {
      context.strokeStyle = colour;
      context.beginPath();
      for (const client of clients) {
        context.moveTo(...spots[client]);
        context.lineTo(...edgeSpots[states[client]]);
      }
      context.stroke();
    });
    context.globalAlpha = 1;
    context.strokeStyle = bad;
    context.setLineDash([3, 3]);
    context.beginPath();
    for (const [client, edge] of down.links.slice(0, 2000)) {
      context.moveTo(...spots[world.clientNumber.get(client)]);
      context.lineTo(...edgeSpots[world.edgeNumber.get(edge)]);
    }
    context.stroke();
    context.setLineDash([]);
    this.#points(context, spots, states, size);
    edgeSpots.forEach(([x, y], edge) => {
      const gone = down.edges.has(world.edges[edge].id), r = world.edges.length > 40 ? 4 : 8;
      context.fillStyle = gone ? panel : edgeColour(edge);
      context.strokeStyle = gone ? bad : text;
      context.lineWidth = 1.5;
      context.fillRect(x - r, y - r, 2 * r, 2 * r);
      context.strokeRect(x - r, y - r, 2 * r, 2 * r);
      if (gone) this.#cross(context, x, y, r);
      if (world.edges.length <= 20) {
        context.font = "600 12px system-ui, sans-serif";
        context.textAlign = "center";
        context.lineWidth = 3;
        context.strokeStyle = panel;
        context.strokeText(world.edges[edge].id, x, y - r - 4);
        context.fillStyle = gone ? bad : text;
        context.fillText(world.edges[edge].id, x, y - r - 4);
      }
    });
  }

  #points(context, spots, states, size) {
    const { clients } = this.source.world, { longTerm } = this.source;
    const off = css("--off"), idle = css("--idle"), tiny = size < 2;  // a disc of two pixels is a square
    context.lineWidth = 1;
    context.strokeStyle = off;
    context.beginPath();
    states.forEach((state, client) => {
      if (state !== -2) return;
      const [x, y] = spots[client], r = 0.7 * size;
      context.moveTo(x - r, y - r); context.lineTo(x + r, y + r);
      context.moveTo(x - r, y + r); context.lineTo(x + r, y - r);
    });
    context.stroke();
    context.strokeStyle = context.fillStyle = idle;
    context.beginPath();
    states.forEach((state, client) => {
      if (state !== -1) return;
      const [x, y] = spots[client], r = 0.8 * size;
      if (tiny) { context.fillRect(x - r, y - r, 2 * r, 2 * r); return; }
      context.moveTo(x + r, y);
      context.arc(x, y, r, 0, 7);
    });
    context.stroke();
    byColour(states, (colour, serving) => {
      context.fillStyle = colour;
      for (const client of serving) {
        const [x, y] = spots[client], planned = longTerm.size === 0 || longTerm.has(clients[client].id);
        if (planned && tiny) { context.fillRect(x - size, y - size, 2 * size, 2 * size); continue; }
        context.beginPath();
        if (planned) context.arc(x, y, size, 0, 7);
        else {  // stands in for somebody
          const r = 1.35 * size;
          context.moveTo(x, y - r); context.lineTo(x + r, y); context.lineTo(x, y + r); context.lineTo(x - r, y);
          context.closePath();
        }
        context.fill();
      }
    });
  }

  #cross(context, x, y, r) {
    context.beginPath();
    context.moveTo(x - r, y - r); context.lineTo(x + r, y + r);
    context.moveTo(x - r, y + r); context.lineTo(x + r, y - r);
    context.stroke();
  }

  #nearest(event) {
    if (!this.drawn) return null;
    const box = this.canvas.getBoundingClientRect();
    const x = event.clientX - box.left, y = event.clientY - box.top;
    const near = (spots, reach) => {
      let best = -1, least = reach * reach;
      spots.forEach(([sx, sy], number) => {
        const d = (sx - x) ** 2 + (sy - y) ** 2;
        if (d < least) { least = d; best = number; }
      });
      return best;
    };
    const edge = near(this.drawnEdges, 10);
    if (edge >= 0) return { edge };
    const client = near(this.drawn, 9);
    return client >= 0 ? { client } : null;
  }

  #hover(event) {
    const found = this.#nearest(event), { world, longTerm } = this.source;
    if (!found) { showTip(""); return; }
    if (found.edge !== undefined) { showTip(`edge ${world.edges[found.edge].id}`, event.clientX, event.clientY); return; }
    const client = world.clients[found.client], state = this.states[found.client];
    const does = state === -2 ? "offline" : state === -1 ? "online, does not train" : `trains at ${world.edges[state].id}`;
    const planned = longTerm.has(client.id) ? `, long-term client of ${longTerm.get(client.id)}` : "";
    showTip(`${client.id}: ${does}; online ${percent(world.likely[found.client])}${planned}`, event.clientX, event.clientY);
  }
}

export class MatrixPicture {
  constructor(source, picked) {
    this.source = source;
    this.canvas = el("canvas", { role: "img", "aria-label": "Clients by rounds: offline, idle, training" });
    this.canvas.addEventListener("mousemove", (event) => {
      const [client, place] = this.#cell(event);
      if (client === null) { showTip(""); return; }
      const state = source.states(place)[client];
      const does = state === -2 ? "offline" : state === -1 ? "online" : `trains at ${source.world.edges[state].id}`;
      const round = source.decisions[place].round;
      showTip(`${source.world.clients[client].id}, round ${round}: ${does}`, event.clientX, event.clientY);
    });
    this.canvas.addEventListener("mouseleave", () => showTip(""));
    this.canvas.addEventListener("click", (event) => {
      const [client, place] = this.#cell(event);
      if (client !== null) picked(place);
    });
  }

  #cell(event) {
    const box = this.canvas.getBoundingClientRect();
    const rounds = this.source.decisions.length, clients = this.order?.length ?? 0;
    const place = Math.floor(((event.clientX - box.left) / box.width) * rounds);
    const row = Math.floor(((event.clientY - box.top) / box.height) * clients);
    return place >= 0 && place < rounds && row >= 0 && row < clients ? [this.order[row], place] : [null, null];
  }

  // The cells change only with the rounds; the mark of the selected round is drawn over them.
  draw(selected) {
    const { source } = this, clients = source.world.clients.length, rounds = source.decisions.length;
    if (rounds === 0) { this.canvas.hidden = true; return; }
    this.canvas.hidden = false;
    const theme = css("--panel");
    const [context, w, h] = fitted(this.canvas, Math.max(160, Math.min(420, 4 * clients)));
    const made = `${rounds} ${theme} ${this.canvas.width}`;
    if (this.made !== made) {
      this.#fill(clients, rounds, theme);
      this.scaled = el("canvas");
      this.scaled.width = this.canvas.width;
      this.scaled.height = this.canvas.height;
      const copy = this.scaled.getContext("2d");
      copy.imageSmoothingEnabled = clients > 2 * h;
      copy.drawImage(this.cells, 0, 0, this.scaled.width, this.scaled.height);
      this.made = made;
    }
    context.drawImage(this.scaled, 0, 0, w, h);
    context.strokeStyle = css("--text");
    context.lineWidth = 1.5;
    context.strokeRect((selected * w) / rounds, 0.75, Math.max(2, w / rounds), h - 1.5);
  }

  #fill(clients, rounds, theme) {
    const all = Array.from({ length: rounds }, (_, place) => this.source.states(place));
    const home = new Int32Array(clients).fill(1e6), times = new Int32Array(clients);
    for (const states of all) for (let client = 0; client < clients; client += 1) {
      const state = states[client];
      if (state >= 0) { times[client] += 1; if (home[client] === 1e6) home[client] = state; }
    }
    this.order = Array.from({ length: clients }, (_, n) => n)
      .sort((a, b) => home[a] - home[b] || times[b] - times[a] || a - b);
    this.cells = el("canvas");
    this.cells.width = rounds;
    this.cells.height = clients;
    const context = this.cells.getContext("2d"), image = context.createImageData(rounds, clients);
    // A pixel as one number, with its parts in the order of this machine's bytes.
    const pixel = (colour) => new Uint32Array(Uint8Array.of(...[1, 3, 5].map((from) => parseInt(colour.slice(from, from + 2), 16)), 255).buffer)[0];
    const colours = [theme, css("--off"), ...this.source.world.edges.map((_, n) => edgeColour(n))].map(pixel);
    const pixels = new Uint32Array(image.data.buffer);
    for (let place = 0; place < rounds; place += 1) {
      const states = all[place];
      for (let row = 0; row < clients; row += 1) pixels[row * rounds + place] = colours[states[this.order[row]] + 2];
    }
    context.putImageData(image, 0, 0);
  }
}
