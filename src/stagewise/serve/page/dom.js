// Small words for making elements, numbers and files to keep.

export function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "class") made.className = value;
    else if (value !== null && value !== undefined && value !== false) {
      made.setAttribute(name, value === true ? "" : value);
    }
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

export const number = (value, digits = 4) =>
  value === null || value === undefined || Number.isNaN(value) ? "–"
    : Number.isInteger(value) || Math.abs(value) >= 10 ** digits ? String(Math.round(value))
      : Number(value).toPrecision(digits);

export const percent = (value) =>
  value === null || value === undefined ? "–" : `${(100 * value).toFixed(1)}%`;

export const css = (name) =>
  getComputedStyle(document.documentElement).getPropertyValue(name).trim();

export function keep(name, content, type = "text/plain") {
  const blob = content instanceof Blob ? content : new Blob([content], { type });
  const link = el("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

export function csv(headings, rows) {
  const cell = (value) => {
    const text = value === null || value === undefined ? "" : String(value);
    return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return [headings, ...rows].map((row) => row.map(cell).join(",")).join("\n") + "\n";
}

export function table(headings, rows) {
  return el("table", {},
    el("thead", {}, el("tr", {}, ...headings.map((text) => el("th", { scope: "col" }, text)))),
    el("tbody", {}, ...rows.map((row) =>
      el("tr", {}, ...row.map((cell) => el("td", {}, cell instanceof Node ? cell : String(cell)))))));
}

// A section with a heading and buttons; `tools` are [text, action] pairs.
export function section(title, tools, ...children) {
  const buttons = tools.map(([text, action]) =>
    el("button", { class: "tool", type: "button", onclick: action, "aria-label": `${text}: ${title}` }, text));
  return el("section", {}, el("div", { class: "head" }, el("h2", {}, title), ...buttons), ...children);
}

let tip = null;
export function showTip(text, x, y) {
  tip ??= document.body.appendChild(el("div", { id: "tip" }));
  tip.hidden = !text;
  if (!text) return;
  tip.textContent = text;
  tip.style.left = `${Math.min(x + 12, innerWidth - tip.offsetWidth - 8)}px`;
  tip.style.top = `${y + 14}px`;
}
