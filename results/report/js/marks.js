// Markers, lines and bands, in the look that each learner has in every figure.

// Outlines of matplotlib's markers around 0, for a radius of 1.
const OUTLINES = {
  s: "M-.85-.85H.85V.85H-.85Z",
  "^": "M0-1.1L1.05.8H-1.05Z",
  v: "M0 1.1L1.05-.8H-1.05Z",
  "<": "M-1.1 0L.8-1.05V1.05Z",
  ">": "M1.1 0L-.8-1.05V1.05Z",
  D: "M0-1.2L1.2 0L0 1.2L-1.2 0Z",
  P: "M-.4-1.1H.4V-.4H1.1V.4H.4V1.1H-.4V.4H-1.1V-.4H-.4Z",
  X: "M-.55-1.1L0-.55L.55-1.1L1.1-.55L.55 0L1.1.55L.55 1.1L0 .55L-.55 1.1L-1.1.55L-.55 0L-1.1-.55Z",
  p: "M0-1.1L1.05-.34L.65.9H-.65L-1.05-.34Z",
};

/** A learner's marker around a place. */
function marker(look, x, y, radius) {
  const common = { class: `marker look-${look.colour}${look.filled ? "" : " hollow"}` };
  const outline = OUTLINES[look.marker];
  if (!outline) return drawn("circle", { cx: x, cy: y, r: radius, "stroke-width": 1.4, ...common });
  const transform = `translate(${x} ${y}) scale(${radius})`;
  return drawn("path", { d: outline, transform, "stroke-width": 1.4 / radius, "stroke-linejoin": "round", ...common });
}

/** A path through places; it is broken where one is null. */
function pathThrough(places) {
  let begun = false;
  const steps = [];
  for (const place of places) {
    if (place === null) {
      begun = false;
      continue;
    }
    steps.push(`${begun ? "L" : "M"}${place[0].toFixed(1)} ${place[1].toFixed(1)}`);
    begun = true;
  }
  return steps.join("");
}

/** A line in a learner's colour and dashes, with a thin edge so that light colours are seen on white. */
function curve(look, places) {
  const d = pathThrough(places);
  const dashes = look.dashes || null;
  const line = drawn("path", { class: `curve look-${look.colour}`, d, "stroke-dasharray": dashes });
  return drawn("g", {}, drawn("path", { class: "casing", d, "stroke-dasharray": dashes }), line);
}

/** The area between two lines of places. */
function band(look, upper, lower) {
  if (upper.length < 2) return drawn("g", {});
  const d = `${pathThrough([...upper, ...[...lower].reverse()])}Z`;
  return drawn("path", { class: `band look-${look.colour}`, d });
}

/** A short piece of a line with its marker, for legends. */
function sample(look) {
  const svg = drawn("svg", { width: 30, height: 14, viewBox: "0 0 30 14", "aria-hidden": "true" });
  svg.append(curve(look, [[1, 7], [29, 7]]));
  if (look.marker) svg.append(marker(look, 15, 7, 4));
  return svg;
}
