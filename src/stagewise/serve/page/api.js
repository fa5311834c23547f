// Requests to the service: JSON, lines and events, with a token where one is asked for.

let asking = null;

function headers() {
  const token = sessionStorage.getItem("token");
  return token ? { Authorization: `Bearer ${token}` } : {};
}

function askForToken(message) {
  asking ??= new Promise((resolve) => {
    const dialog = document.getElementById("token");
    document.getElementById("token-error").textContent = message;
    dialog.addEventListener("close", () => {
      sessionStorage.setItem("token", document.getElementById("secret").value);
      asking = null;
      resolve();
    }, { once: true });
    dialog.showModal();
  });
  return asking;
}

export class Refused extends Error {
  constructor(status, message) { super(message); this.status = status; }
}

export async function ask(method, path, body) {
  for (;;) {
    const options = { method, headers: headers() };
    if (body !== undefined) options.body = JSON.stringify(body);
    const answer = await fetch(path, options);
    if (answer.ok) return answer;
    const told = (await answer.json().catch(() => ({}))).error ?? answer.statusText;
    if (answer.status !== 401) throw new Refused(answer.status, told);
    await askForToken(sessionStorage.getItem("token") ? told : "");
  }
}

export const json = async (method, path, body) => (await ask(method, path, body)).json();

export async function lines(path) {
  const text = await (await ask("GET", path)).text();
  return text.split("\n").filter(Boolean).map((line) => JSON.parse(line));
}

// Calls `told` with every event until `signal` says that it is enough; opens the stream again when it ends.
export async function events(path, after, told, signal) {
  let last = after;
  while (!signal.aborted) {
    try {
      const separator = path.includes("?") ? "&" : "?";
      const answer = await fetch(`${path}${separator}after=${last}`, { headers: headers(), signal });
      if (!answer.ok) return;
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      let buffer = "";
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        buffer += value;
        let end;
        while ((end = buffer.indexOf("\n\n")) >= 0) {
          const fields = Object.fromEntries(
            buffer.slice(0, end).split("\n").map((line) => line.split(/: (.*)/s).slice(0, 2)),
          );
          buffer = buffer.slice(end + 2);
          if (fields.event === undefined) continue;
          if (fields.id !== undefined) last = Number(fields.id);
          const data = JSON.parse(fields.data);
          queueMicrotask(() => told(fields.event, data));  // its errors are not those of the stream
        }
      }
    } catch (error) {
      if (signal.aborted) return;
    }
    await new Promise((resolve) => setTimeout(resolve, 1000));
  }
}
