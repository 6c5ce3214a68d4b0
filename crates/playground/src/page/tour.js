// A tour of a minute on an unused page: members of this server act. All of it takes the path of real messages.

import { ask } from "./asking.js";
import { complain } from "./composer.js";
import { crashWhileItAnswers, inside } from "./inside.js";
import { go } from "./places.js";
import { startTyping } from "./questions.js";
import { opened } from "./threads.js";
import { at, channelHere, keep, recall, world } from "./world.js";

/** Idle time after which the tour starts on an empty page. */
const QUIET_MS = 6000;
/** Timeout of an answer, and the time without changes after which it is complete. */
const ANSWER_MS = 20_000;
const WHOLE_MS = 4000;
const LOOK_MS = 100;
/** Time to read a text before its action, and at the end. */
const READ_MS = 1800;
const END_MS = 12_000;
/** More questions than a member of the playground may ask in a minute. */
const TOO_MANY = 33;

/** The running tour; null once the user takes over. */
let running = null;
let last = Promise.resolve();
let quiet = 0;

const STOPS = [
  ["Two members ask at the same time. Each has a queue of their own, so the short answer does not wait for the long one.", async (tour) => {
    const [ada, ben] = tour.people;
    const [roll, tale] = world.examples.tour;
    const asked = [await tour.says(ada, tale), await tour.says(ben, roll)];
    await tour.answers(asked);
  }],
  ["A formula. The bot draws it itself.", async (tour) => tour.answers([await tour.says(tour.people[0], world.examples.tour[2])])],
  ["Now the conversation crashes in the middle of an answer. The journal, a write-ahead log, hands its question to a new conversation, and the answer arrives complete.", async (tour) => {
    const said = await crashWhileItAnswers(tour.goesOn);
    if (said) await tour.answers([said]);
  }],
  ["One member reaches the limit, in a thread. The first refusal is a message, later ones are the reaction ⏳.", async (tour) => {
    const [member, home] = [tour.people[1], world.here];
    const thread = await ask("POST", "/playground/threads", { member, channel: world.here, name: "How often is too often?" });
    if (!tour.goesOn()) return;
    opened(thread);
    go(thread.id);
    for (let number = 1; number <= TOO_MANY && tour.goesOn(); number += 1) await tour.says(member, `question ${number}`, thread.id);
    const refused = () => (world.messages.get(thread.id) ?? []).some((message) => message.reactions?.length);
    await tour.until(refused);
    await pause(READ_MS);
    if (tour.goesOn()) go(home);
  }],
];

const END = "Your turn: click on an actor of the tree to crash it, or ask something.";

/** Watches for an idle page, and for input by which the user takes over. */
export function watchTour() {
  at("tour-stop").addEventListener("click", takeOver);
  for (const kind of ["keydown", "pointerdown", "wheel"]) {
    document.addEventListener(kind, (event) => {
      if (!event.isTrusted) return;
      waitForQuiet();
      const acts = kind === "keydown" ? event.key.length === 1 || event.key === "Escape" || event.key === "Enter" : kind === "pointerdown";
      if (acts && !event.target.closest?.("#tour, #board, .scroll")) takeOver();
    }, { passive: true, capture: true });
  }
  waitForQuiet();
}

function waitForQuiet() {
  clearTimeout(quiet);
  quiet = setTimeout(() => {
    if (document.hidden || !world.bot) waitForQuiet();
    else if (begins()) startTour();
  }, QUIET_MS);
}

/** True if the tour starts by itself: never if questions cost money, or if the page was used before. */
export function begins() {
  return isEmpty() && !running && Boolean(inside.chaos?.demo()) && recall("tour") !== "over" && !matchMedia("(prefers-reduced-motion: reduce)").matches;
}

function isEmpty() {
  return at("draft").value === "" && [...world.messages.values()].every((messages) => messages.length === 0);
}

/** Ends the tour at once, including its pending actions. */
function takeOver() {
  if (!running) return;
  running = null;
  keep("tour", "over");
  at("tour").hidden = true;
}

/** Resolves when no action of the last tour is pending. */
export function ended() {
  return last;
}

export function startTour() {
  last = act();
}

async function act() {
  const people = [...world.members.values()].filter((member) => !member.bot).map((member) => member.id);
  if (running || people.length < 2 || channelHere()?.kind !== "text") return;
  const tour = walk(people);
  running = tour;
  at("tour-stop").textContent = "Take over";
  at("tour").hidden = false;
  try {
    for (const [words, stop] of STOPS) {
      at("tour-words").textContent = words;
      await pause(READ_MS);
      if (tour.goesOn()) await stop(tour);
      if (!tour.goesOn()) return;
    }
  } catch (error) {
    if (tour.goesOn()) complain(error.message);
    takeOver();
    return;
  }
  const { crashes, lost, doubled } = inside.chaos.counts();
  at("tour-words").textContent = `That was the tour: ${crashes} crashed, ${lost} lost, ${doubled} doubled. ${END}`;
  at("tour-stop").textContent = "Close";
  keep("tour", "over");
  await pause(END_MS);
  if (tour.goesOn()) takeOver();
}

/** The actions of a tour's stops. */
function walk(people) {
  const tour = {
    people,
    goesOn: () => running === tour,
    says: async (member, words, channel = world.here) => {
      startTyping(channel, member);
      const said = await ask("POST", "/playground/messages", { member, channel, text: `<@${world.bot}> ${words}` });
      return { id: said.id, channel };
    },
    until: async (is) => {
      for (let waited = 0; waited < ANSWER_MS && tour.goesOn() && !is(); waited += LOOK_MS) await pause(LOOK_MS);
    },
    /** Awaits a complete answer to each of these. */
    answers: async (asked) => {
      let [seen, since] = ["", Date.now()];
      await tour.until(() => {
        const found = asked.map(({ id, channel }) => (world.messages.get(channel) ?? []).findLast((message) => message.reply_to === id));
        const now = JSON.stringify(found.map((message) => [message?.content, message?.attachments?.length]));
        if (now !== seen) [seen, since] = [now, Date.now()];
        return found.every(Boolean) && Date.now() - since > WHOLE_MS;
      });
    },
  };
  return tour;
}

function pause(time) {
  return new Promise((done) => setTimeout(done, time));
}
