// The card of a run of chaos, drawn on a canvas, so that it can be saved as a picture.

import { duration } from "/dashboard/dom.js";

const WIDTH = 1200;
const HEIGHT = 630;
const EDGE = 60;
/** Lines for the answers of one member. */
const LANES = 2;
const COLOURS = {
  paper: "#101a1e", raised: "#16242a", ink: "#eef6f6", muted: "#9db3b8", line: "#2a3e44", bad: "#ff7a66", good: "#3ecb8b", busy: "#efb33f", answer: "#58c5cf",
};
const FONT = 'system-ui, -apple-system, "Segoe UI", "Noto Sans", "DejaVu Sans", sans-serif';

/** The content of a card: figures, a line of details, the times for the picture, and all of it in words. */
export function cardOf({ from, struckFor, talks, counts, strikes, people, names, version }) {
  const took = talks.filter((one) => one.to !== null).map((one) => one.to - one.from);
  const slowest = took.length ? Math.max(...took) : null;
  const apologies = talks.filter((one) => one.apology).length;
  const seconds = Math.round(struckFor / 1000);
  const title = `${seconds} seconds of chaos`;
  const figures = [
    [String(counts.crashes), "crashes", "ink"], [String(counts.lost), "lost", counts.lost ? "bad" : "good"],
    [String(counts.doubled), "doubled", counts.doubled ? "bad" : "good"], [slowest === null ? "–" : duration(slowest), "slowest answer", "ink"],
  ];
  const many = (number, word) => `${number} ${word}${number === 1 ? "" : "s"}`;
  const lines = [
    `${many(counts.strikes, "strike")} at actors, Discord, the model and the store, ${many(counts.kills, "kill")} of the whole process`,
    `${many(counts.asked, "question")} of ${many(people.length, "member")}, ${counts.answered} answered${apologies ? `, of these ${many(apologies, "apology").replace("apologys", "apologies")}` : ""}`,
  ];
  const end = Math.max(from + struckFor, ...talks.map((one) => one.to ?? 0));
  return {
    title, figures, lines, from, end, strikes, version,
    rows: people.map((id) => ({ name: names.get(id), talks: talks.filter((one) => one.member === id) })),
    words: `${title}: ${figures.map(([value, what]) => `${what} ${value}`).join(", ")}. ${lines.join(". ")}.`,
  };
}

/** Draws a card. */
export function drawCard(canvas, card) {
  [canvas.width, canvas.height] = [WIDTH, HEIGHT];
  const pen = canvas.getContext("2d");
  const text = (words, x, y, size, colour, { weight = 400, align = "left" } = {}) => {
    pen.font = `${weight} ${size}px ${FONT}`;
    pen.fillStyle = COLOURS[colour];
    pen.textAlign = align;
    pen.fillText(words, x, y);
  };
  pen.fillStyle = COLOURS.paper;
  pen.fillRect(0, 0, WIDTH, HEIGHT);
  text(card.title, EDGE, 92, 44, "ink", { weight: 650 });
  text(`staffai ${card.version}`, WIDTH - EDGE, 92, 24, "muted", { align: "right" });
  const wide = (WIDTH - 2 * EDGE) / card.figures.length;
  card.figures.forEach(([value, what, colour], n) => {
    const x = EDGE + n * wide;
    text(value, x, 206, 76, colour, { weight: 700 });
    text(what, x, 246, 25, "muted");
  });
  card.lines.forEach((line, n) => text(line, EDGE, 304 + n * 36, 24, "ink"));
  drawTimes(pen, card, text);
}

/** The run in time: a bar for each answer in the row of its member, a red tick for each strike, a line for each kill. */
function drawTimes(pen, { rows, strikes, from, end }, text) {
  const [left, right, top, step] = [EDGE + 120, WIDTH - EDGE, 392, 44];
  const x = (moment) => left + ((Math.min(end, Math.max(from, moment)) - from) / Math.max(1, end - from)) * (right - left);
  rows.forEach(({ name, talks }, n) => {
    const y = top + n * step;
    pen.fillStyle = COLOURS.raised;
    pen.fillRect(left, y, right - left, step - 10);
    text([...name].slice(0, 10).join(""), EDGE, y + 25, 22, "muted");
    const free = new Array(LANES).fill(0);
    for (const { from: begun, to, apology } of talks) {
      // Answers that overlap have a line each.
      const lane = Math.max(0, free.findIndex((until) => until <= begun));
      free[lane] = to ?? end;
      pen.fillStyle = to === null ? COLOURS.bad : apology ? COLOURS.busy : COLOURS.answer;
      pen.fillRect(x(begun), y + 4 + lane * 14, Math.max(3, x(to ?? end) - x(begun) - 1), 12);
    }
  });
  const bottom = top + rows.length * step;
  for (const { at, what } of strikes) {
    const kill = what === "kill_bot";
    pen.fillStyle = COLOURS.bad;
    pen.fillRect(x(at) - 1, kill ? top - 12 : bottom, kill ? 3 : 2, kill ? bottom - top + 30 : 18);
    if (kill) text("kill -9", Math.min(x(at), right - 70), top - 18, 18, "bad");
  }
  text("0 s", left, bottom + 48, 20, "muted");
  text(duration(end - from), right, bottom + 48, 20, "muted", { align: "right" });
  text("answers, and below them each strike", (left + right) / 2, bottom + 48, 20, "muted", { align: "center" });
}
