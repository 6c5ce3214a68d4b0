// Sparklines.

const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 120;
const HEIGHT = 24;
/** Horizontal resolution; more points are merged. */
const PLACES = 60;

/** Creates an empty line, to be filled by [`draw`]. */
export function spark(classes = "") {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("class", `spark ${classes}`);
  svg.setAttribute("aria-hidden", "true");
  svg.append(document.createElementNS(SVG, "path"), document.createElementNS(SVG, "path"), document.createElementNS(SVG, "path"));
  svg.children[0].setAttribute("class", "area");
  svg.children[1].setAttribute("class", "line");
  svg.children[2].setAttribute("class", "marks");
  return svg;
}

/**
 * Draws points `[moment, value]`, sampled `every` so many milliseconds, over the span `[from, to]`; values may be
 * missing. `sum`: merged values are added instead of taking their maximum. `marks`: points that get a tick if above
 * zero. Returns the maximum.
 */
export function draw(svg, points, { from, to, every, sum = false, marks = [] }) {
  const many = Math.max(2, Math.min(PLACES, Math.floor((to - from) / every)));
  const places = gathered(points, { from, to, sum, many });
  const most = Math.max(0, ...places.filter((value) => value !== null));
  const x = (n) => (((n + 0.5) / many) * WIDTH).toFixed(1);
  const y = (value) => (HEIGHT - 1.5 - (most > 0 ? value / most : 0) * (HEIGHT - 4)).toFixed(1);
  let line = "";
  let area = "";
  let begun = null;
  places.forEach((value, n) => {
    if (value !== null) {
      line += `${begun === null ? "M" : "L"}${x(n)} ${y(value)}`;
      area += begun === null ? `M${x(n)} ${HEIGHT}L${x(n)} ${y(value)}` : `L${x(n)} ${y(value)}`;
      begun ??= n;
    }
    if (begun !== null && (value === null || n === places.length - 1)) {
      area += `L${x(value === null ? n - 1 : n)} ${HEIGHT}Z`;
      begun = null;
    }
  });
  const ticks = gathered(marks, { from, to, sum: true, many }).map((value, n) => (value ? `M${x(n)} 0V${HEIGHT}` : "")).join("");
  const drawn = `${line}|${area}|${ticks}`;
  if (svg.dataset.drawn === drawn) return most;
  svg.dataset.drawn = drawn;
  svg.children[0].setAttribute("d", area);
  svg.children[1].setAttribute("d", line);
  svg.children[2].setAttribute("d", ticks);
  return most;
}

function gathered(points, { from, to, sum, many }) {
  const places = new Array(many).fill(null);
  for (const [at, value] of points) {
    if (value === null || at < from || at > to) continue;
    const n = Math.min(many - 1, Math.floor(((at - from) / Math.max(1, to - from)) * many));
    places[n] = places[n] === null ? value : sum ? places[n] + value : Math.max(places[n], value);
  }
  // Samples may be further apart than the resolution.
  let last = null;
  return places.map((value, n) => {
    if (value !== null) {
      last = n;
      return value;
    }
    return !sum && last !== null && n - last <= 2 ? places[last] : sum && last !== null && n - last <= 2 ? 0 : null;
  });
}
