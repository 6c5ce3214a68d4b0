// The voice page: a person writes or speaks, and the answer is spoken until the person interrupts it.

import { answers, drawn } from "./answers.js";
import { linked } from "./asking.js";
import { act, feel, mouth } from "./face.js";
import { listening } from "./listening.js";
import { player } from "./player.js";
import { reciter } from "./reciter.js";
import { converse } from "./talk.js";
import { at } from "./world.js";
import { duration, make, set } from "/dashboard/dom.js";
import { themeSwitch } from "/dashboard/theme.js";

/** Loudness below which the output is silent. */
const SILENCE = 0.001;

/** The causes of a missing answer. */
const CAUSES = { stopped: "it was stopped", over_limit: "you are over a limit; try again later", not_taken: "there are too many questions; try again in a minute" };

/** What the server has, and the state of the conversation. */
const here = { voice: "", hears: "", turn: "", asked: 0, texted: 0, voiced: 0, thinking: false, muted: false, stops: false, cut: new Set(), complete: new Set(), calls: new Set() };
const shown = answers(answerOf);

let context = null;
let played = null;
const recited = reciter((now) => sounded(now, 0));
/** The voice that speaks: that of the server, or the browser's. */
const voice = () => (here.voice ? played : recited);

/** Browsers allow sound only after the person acted. */
const isAllowed = () => navigator.userActivation?.hasBeenActive ?? true;

function wake() {
  if (!context) {
    context = new AudioContext();
    played = player(context, (clip, begins) => sounded(clip, (begins - context.currentTime) * 1000));
  }
  if (context.state === "suspended") context.resume();
}

function time(id, ms) {
  at(id).textContent = duration(ms);
  at(id).dataset.ms = ms.toFixed(1);
}

function sounded({ turn, sentence }, delay) {
  feel(shown.get(turn, sentence)?.emotions[0]);
  if (turn !== here.turn || here.voiced === 0 || at("time-sound").dataset.turn === turn) return;
  at("time-sound").dataset.turn = turn;
  time("time-sound", performance.now() - here.voiced + delay);
}

function line(classes, who, ...children) {
  const row = make("li", classes, who ? make("strong", "", who) : "", ...children);
  at("lines").append(row);
  follow();
  return row;
}

/** Scrolls to the newest line: beside the face, or in all notes on a narrow screen. */
function follow() {
  at("lines").lastElementChild?.scrollIntoView({ block: "end", inline: "nearest" });
}

/** Sends a question. An answer that is being spoken is interrupted first. */
function ask(text) {
  wake();
  interrupt();
  here.asked = performance.now();
  if (!talk.send({ event: "text", text, id: crypto.randomUUID() })) {
    set(at("problem"), "There is no connection; try again in a moment.");
    return false;
  }
  set(at("problem"), "");
  asked(text);
  return true;
}

/** Shows a question whose turn is not known yet. */
function asked(text) {
  line("mine", "You", text);
  Object.assign(here, { turn: "", thinking: true, stops: false });
}

const speaks = () => Boolean(voice()?.sounds());

/** Stops the answer at once, and reports how far it was heard. */
function interrupt() {
  const busy = here.thinking || speaks();
  if (!busy) return;
  const began = performance.now();
  // The sentence that sounds may be of an earlier turn than the newest one.
  let turn = voice()?.now()?.turn ?? here.turn;
  let heard = voice()?.heardTo(turn) ?? null;
  played?.stop();
  recited?.stop();
  silent(began);
  const isHeard = here.complete.has(turn) && shown.isLast(turn, heard);
  // An answer whose last sentence began to sound was heard.
  if (isHeard && (turn === here.turn || !here.thinking)) return;
  if (isHeard) [turn, heard] = [here.turn, null];
  here.thinking = false;
  if (turn) cut(turn, heard);
  else here.stops = true;
  shown.cut(turn, heard);
  const rest = at("lines").querySelector(`[data-turn="${turn}"] .unheard`) ? "Stopped; the grey part was not heard." : "Stopped here.";
  line("aside", "", heard === null ? "Stopped before anything was heard." : rest);
}

function cut(turn, heard) {
  here.cut.add(turn);
  talk.send({ event: "interrupt", turn, ...(heard === null ? {} : { spoken_to: heard }) });
}

/** Measures the time until the output is silent. */
function silent(began) {
  const look = () => {
    if (here.voice && played && played.loudness() > SILENCE) return setTimeout(look, 1);
    return time("time-silence", performance.now() - began);
  };
  look();
}

/** What to do with each event of the server. */
const events = {
  ready,
  submitted({ turn, message, said }) {
    // Commands have no turn.
    if (!message) here.thinking = false;
    if (said) line("", "staffai", said);
    here.turn = message || turn;
    if (here.stops && here.turn) cut(here.turn, null);
    here.stops = false;
  },
  accepted({ turn }) {
    Object.assign(here, { turn, texted: 0, voiced: 0, thinking: !here.stops && !here.cut.has(turn) });
  },
  sentence(event) {
    if (here.cut.has(event.turn)) return;
    if (here.texted === 0 && event.turn === here.turn) {
      here.texted = performance.now();
      if (here.asked) time("time-text", here.texted - here.asked);
    }
    shown.add(event);
    follow();
    if (!here.voice && !here.muted && event.speech) recited?.say(event.turn, event.sentence, event.speech);
  },
  audio(event) {
    if (here.cut.has(event.turn) || here.muted || !isAllowed()) return;
    wake();
    if (here.voiced === 0 && event.turn === here.turn) {
      here.voiced = performance.now();
      time("time-audio", here.voiced - here.texted);
    }
    if (event.data) played.push(event.turn, event.sentence, event.format, bytesOf(event.data));
    if (event.end) played.end(event.turn, event.sentence);
  },
  tool_status({ turn, call, name, state }) {
    // Progress repeats the state.
    const key = `${turn}/${call}`;
    if (state === "running" && !here.calls.has(key)) line("aside", "", `staffai uses ${name}`);
    else if (state === "failed") line("aside", "", `${name} failed`);
    else if (state === "denied") line("aside", "", `${name} was not approved and did not run`);
    here.calls.add(key);
  },
  picture({ turn, name, format, data, description }) {
    if (here.cut.has(turn)) return;
    const image = make("img", "shown-picture");
    image.alt = description || name;
    image.addEventListener("load", () => {
      URL.revokeObjectURL(image.src);
      follow();
    }, { once: true });
    image.src = URL.createObjectURL(new Blob([bytesOf(data)], { type: format }));
    answerOf(turn).append(image);
  },
  approval,
  heard({ text, final }) {
    ears.heard(text, final);
    if (!final || !text) return;
    here.asked = performance.now();
    asked(text);
  },
  speech({ on }) {
    ears.speech(on);
    if (on) interrupt();
  },
  done({ turn, unanswered }) {
    if (!unanswered) here.complete.add(turn);
    for (const box of [...at("asks").children]) if (box.dataset.turn === turn) box.remove();
    at("asks").hidden = at("asks").children.length === 0;
    if (turn !== here.turn) return;
    here.thinking = false;
    if (unanswered && !here.cut.has(turn)) line("aside", "", `There is no answer: ${CAUSES[unanswered] ?? "something went wrong; ask again"}.`);
  },
  text_only({ why }) {
    line("aside", "", `${why[0].toUpperCase()}${why.slice(1)}.`);
  },
  error({ sentence, why }) {
    if (sentence !== undefined) return void line("aside", "", `One sentence could not be spoken: ${why}.`);
    ears.gaveUp();
    set(at("problem"), `${why[0].toUpperCase()}${why.slice(1)}.`);
  },
};

function bytesOf(base64) {
  return Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
}

function answerOf(turn) {
  const known = [...at("lines").children].find((row) => row.dataset.turn === turn);
  if (known) return known;
  const row = line("", "staffai");
  row.dataset.turn = turn;
  return row;
}

function ready(event) {
  here.voice = event.voice ?? "";
  here.hears = event.hears ?? "";
  at("voice-note").textContent = here.voice
    ? `The server speaks with ${here.voice}.`
    : recited
      ? "The server has no voice. Your browser speaks instead; with espeak-ng on this machine, the server does."
      : "Neither the server nor your browser has a voice. Install espeak-ng on this machine to hear answers.";
  at("hearing-note").textContent = ears.available(here.hears);
  if (here.muted) talk.send({ event: "mute", on: true });
}

function approval({ turn, id, question, form, link, decision }) {
  const known = document.getElementById(`ask-${id}`);
  if (decision) known?.remove();
  else if (!known) {
    const decide = (label, approve, style) => {
      const button = make("button", `press ${style}`, label);
      button.type = "button";
      button.addEventListener("click", () => talk.send({ event: "answer", id, approve }));
      return button;
    };
    const buttons = make("div", "", decide("Deny", false, ""));
    // A form has fields, which are filled in elsewhere: over the API, or where its session is a chat.
    if (!form) buttons.prepend(decide(link ? "Continue" : "Approve", true, "style-1"));
    const box = make("section", "", make("p", "", question));
    if (link) {
      const open = make("a", "", `Open ${link.host}`);
      Object.assign(open, { href: link.url, target: "_blank", rel: "noopener noreferrer" });
      box.append(open);
    }
    if (form) box.append(make("p", "note", "This form cannot be filled in here. Answer it over the API, or deny it."));
    box.append(buttons);
    box.id = `ask-${id}`;
    box.dataset.turn = turn;
    box.setAttribute("aria-label", "Approval");
    at("asks").append(box);
  }
  at("asks").hidden = at("asks").children.length === 0;
}

/** Shows the whole sentence of which a part sounds, word by word. */
function caption() {
  const now = voice()?.now();
  const known = now && shown.get(now.turn, now.sentence);
  if (!known) return;
  const parts = shown.caption(now.turn, now.sentence);
  const text = parts.map((part) => part.words).join(" ");
  const key = `${now.turn}/${text}`;
  if (at("caption").dataset.of !== key) {
    at("caption").dataset.of = key;
    at("caption").replaceChildren(...text.split(/(?<=\s)/).map((word) => make("span", "", word)));
  }
  const before = parts.filter((part) => part.number < now.sentence).reduce((sum, part) => sum + part.words.length + 1, 0);
  let letters = before + now.part * (known.words.length);
  for (const word of at("caption").children) {
    word.className = letters > 0 ? "said-word" : "";
    letters -= word.textContent.length;
  }
}

function doing() {
  if (ears.isSpeaking()) return ["listening", "Listening…"];
  if (speaks()) return ["speaking", "Speaking"];
  if (at("asks").children.length > 0) return ["waiting", "Waiting for your decision"];
  if (here.thinking) return ["thinking", "Thinking…"];
  if (ears.isRecognizing()) return ["thinking", "Recognizing what you said…"];
  if (ears.isOpen()) return ["listening", "Listening…"];
  return ["idle", at("lines").children.length > 0 ? "" : "Write or speak to begin."];
}

function frame() {
  mouth(speaks() ? voice().loudness() : 0);
  const [state, words] = doing();
  act(state);
  if (at("doing").textContent !== words) at("doing").textContent = words;
  at("stop").disabled = !(here.thinking || speaks());
  at("level").classList.toggle("open", ears.isOpen());
  const now = voice()?.now();
  if (now) caption();
  else if (at("caption").dataset.of || at("caption").textContent !== ears.partial()) {
    delete at("caption").dataset.of;
    at("caption").textContent = ears.partial();
  }
  requestAnimationFrame(frame);
}

function mute() {
  here.muted = !here.muted;
  at("mute").setAttribute("aria-pressed", String(here.muted));
  talk.send({ event: "mute", on: here.muted });
  if (!here.muted) return;
  played?.stop();
  recited?.stop();
}

/** Returns the name of the conversation of an earlier visit; null if there is none. */
function earlierSession() {
  try {
    return localStorage.getItem("playground.voice");
  } catch {
    return null;
  }
}

/** Returns the name of another conversation, which later visits continue. */
function newSession() {
  const made = `voice-${crypto.randomUUID().slice(0, 8)}`;
  keepSession(made);
  return made;
}

/** Keeps the name of the conversation for later visits; null forgets it. */
function keepSession(name) {
  try {
    if (name) localStorage.setItem("playground.voice", name);
    else localStorage.removeItem("playground.voice");
  } catch {
    // Without a storage, each visit is a new conversation.
  }
}

function startOver() {
  keepSession(null);
  location.reload();
}

/** Shows the conversation of earlier visits. */
async function showEarlier(session) {
  const request = fetch(`/api/v1/sessions/${session}`, { signal: AbortSignal.timeout(5_000) });
  const told = await request.then((answer) => (answer.ok ? answer.json() : null)).catch(() => null);
  for (const { ours, text, answers } of told?.messages ?? []) {
    if (!ours) {
      line("mine", "You", text);
      continue;
    }
    const row = line("", "staffai", make("div", "spoken-block", drawn(text)));
    if (answers) row.dataset.turn = answers;
  }
}

const ears = listening({
  wake,
  interrupt,
  ask,
  send: (message) => talk.send(message),
  sound: (samples) => talk.sound(samples),
  timed: (ms) => time("time-heard", ms),
  complain: (words) => set(at("problem"), words),
});
const earlier = earlierSession();
if (earlier) await showEarlier(earlier);
const talk = converse(earlier ?? newSession(), (event) => events[event.event]?.(event), linked);

at("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  const text = at("draft").value.trim();
  if (text && ask(text)) at("draft").value = "";
});
at("draft").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  at("composer").requestSubmit();
});
document.addEventListener("keydown", (event) => event.key === "Escape" && interrupt());
at("stop").addEventListener("click", interrupt);
at("mute").addEventListener("click", mute);
at("anew").addEventListener("click", startOver);
at("load-again").addEventListener("click", () => location.reload());
addEventListener("resize", follow);
themeSwitch(at("theme"));
frame();
