// Drawing helpers. All content is set as text, never as markup.

/** Creates an element with a class and children, which may be strings. */
export function make(tag, classes = "", ...children) {
  const element = document.createElement(tag);
  if (classes) element.className = classes;
  element.append(...children.filter((child) => child !== null && child !== undefined && child !== ""));
  return element;
}

/**
 * A roving tabindex: Tab reaches one of the elements that `selector` matches in `box`, now or later; arrows, Home and
 * End reach the others.
 */
export function rove(box, selector) {
  let stop = null;
  const all = () => [...box.querySelectorAll(selector)];
  const settle = () => {
    const items = all();
    if (!items.includes(stop)) stop = items.find((item) => item.ariaCurrent) ?? items[0] ?? null;
    for (const item of items) item.tabIndex = item === stop ? 0 : -1;
  };
  new MutationObserver(settle).observe(box, { childList: true, subtree: true });
  box.addEventListener("focusin", (event) => {
    const item = event.target.closest(selector);
    if (!item || item === stop) return;
    stop = item;
    settle();
  });
  box.addEventListener("keydown", (event) => {
    const items = all();
    const now = items.indexOf(event.target);
    const last = items.length - 1;
    const to = { ArrowUp: now - 1, ArrowLeft: now - 1, ArrowDown: now + 1, ArrowRight: now + 1, Home: 0, End: last }[event.key];
    if (now < 0 || to === undefined) return;
    event.preventDefault();
    items[Math.min(last, Math.max(0, to))].focus();
  });
  settle();
}

/** Sets a text, and hides the element if the text is empty. Does nothing if nothing changed. */
export function set(element, text) {
  if (element.textContent !== text) element.textContent = text;
  element.hidden = text === "";
}

/** Restarts an animation, also if the last one has not ended. */
export function mark(element, name) {
  element.classList.remove("born", "restarted", "changed", "worked");
  void element.offsetWidth;
  element.classList.add(name);
}

/** Formats a count in few characters. */
export function short(number) {
  if (number < 1000) return String(number);
  return number < 1_000_000 ? `${(number / 1000).toFixed(1)}k` : `${(number / 1_000_000).toFixed(1)}M`;
}

/** Formats milliseconds as a rounded duration. */
export function duration(ms) {
  if (ms > 0 && ms < 1) return `${Math.max(1, Math.round(ms * 1000))} µs`;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 10_000) return `${(ms / 1000).toFixed(2)} s`;
  return ms < 60_000 ? `${(ms / 1000).toFixed(1)} s` : ago(ms);
}

/** Formats milliseconds in one or two whole units. */
export function ago(ms) {
  const seconds = Math.floor(ms / 1000);
  const [days, hours, minutes] = [Math.floor(seconds / 86_400), Math.floor(seconds / 3600) % 24, Math.floor(seconds / 60) % 60];
  if (days) return `${days}d ${hours}h`;
  if (hours) return `${hours}h ${minutes}m`;
  return minutes ? `${minutes}m ${seconds % 60}s` : `${seconds}s`;
}
