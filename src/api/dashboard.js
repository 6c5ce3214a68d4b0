"use strict";
// Shows /readyz and /api/v1/tree and asks again every two seconds. Everything is set as text, never as markup.

const PERIOD_MS = 2000;
const place = (id) => document.getElementById(id);

function row(cells) {
  const line = document.createElement("tr");
  for (const [text, kind] of cells) {
    const cell = document.createElement("td");
    cell.textContent = text ?? "";
    if (kind) cell.className = kind;
    line.append(cell);
  }
  return line;
}

function branch(node, depth) {
  const own = row([
    ["  ".repeat(depth) + node.name, "name"], [node.state, node.state], [node.restarts, "number"], [node.mailbox, "number"],
    [node.handled, "number"], [node.uptime_s, "number"], [node.last_error],
  ]);
  return [own, ...node.children.flatMap((child) => branch(child, depth + 1))];
}

async function read(path) {
  // A service that is not ready answers 503 with the same body.
  const response = await fetch(path, { cache: "no-store", signal: AbortSignal.timeout(5 * PERIOD_MS) });
  return response.json();
}

async function refresh() {
  try {
    const [readiness, tree] = await Promise.all([read("/readyz"), read("/api/v1/tree")]);
    place("version").textContent = readiness.version;
    place("status").textContent = readiness.status;
    place("status").className = readiness.status;
    place("parts").replaceChildren(...readiness.parts.map((part) => row([
      [`${part.kind} ${part.name}`], [part.status, part.status], [part.since], [part.restarts, "number"], [part.last_error],
    ])));
    place("tree").replaceChildren(...branch(tree, 0));
  } catch {
    place("status").textContent = "no answer";
    place("status").className = "down";
  }
  setTimeout(refresh, PERIOD_MS);
}

refresh();
