// Asking the playground, and what is shown while it cannot be asked.

import { at } from "./world.js";

/** What is wrong as long as nothing can be asked; it ends with the next connection. */
const AWAY = "The playground cannot be reached. Is it still running?";
/** What is wrong once a key is needed: only going to the page anew lets the browser ask for it. */
const LOCKED = "This page needs a key now. Load it again, and give a key as the password; the name does not matter. What you typed is kept.";

/** While whoever is asked is away, it is asked ever more seldom, up to this. */
const SELDOM_MS = 15_000;

/** Asks again and again, as long as the page is open and seen. `look` tells whether it was answered. */
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

/** Says that a key is needed, and offers to load the page again. */
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
