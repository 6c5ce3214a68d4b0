// Requests to the playground, and the page's state while it is unreachable.

import { at } from "./world.js";

/** The error while the playground is unreachable; it ends with the next connection. */
const AWAY = "The playground cannot be reached. Is it still running?";
/** The error once a key is required: browsers ask for it only on a page load. */
const LOCKED = "This page needs a key now. Reload it and enter a key as the password, with any user name. Your draft is kept.";

/** Maximum of the exponential backoff while the server is unreachable. */
const SELDOM_MS = 15_000;

/** Polls while the page is open and visible. `look` returns true if it got a response. */
export async function keepAsking(look, every) {
  let pause = every;
  const again = async () => {
    pause = document.hidden || (await look()) ? every : Math.max(every, Math.min(SELDOM_MS, pause * 2));
    setTimeout(again, pause);
  };
  await again();
}

export async function ask(method, path, body, headers = {}) {
  const options = { method };
  if (body) {
    options.headers = { "Content-Type": "application/json", ...headers };
    options.body = JSON.stringify(body);
  }
  let response;
  try {
    response = await fetch(path, options);
  } catch {
    throw new Error(AWAY);
  }
  if (response.status === 401) {
    locked();
    throw new Error(LOCKED);
  }
  const answer = response.status === 204 ? null : await response.json().catch(() => null);
  if (!response.ok) throw new Error(sentence(answer?.error ?? `the playground answered ${response.status}`));
  return answer;
}

function sentence(text) {
  return `${text[0].toUpperCase()}${text.slice(1)}.`;
}

/** Reports that a key is required, and offers to reload the page. */
function locked() {
  at("link").textContent = "needs a key";
  at("link").className = "link no";
  at("locked").hidden = false;
}

export function linked(yes) {
  if (!yes && !at("locked").hidden) return;
  at("locked").hidden = true;
  at("link").textContent = yes ? "connected" : "reconnecting…";
  at("link").className = yes ? "link yes" : "link no";
  if (yes && at("problem").textContent === AWAY) at("problem").hidden = true;
}
