// Elements and numbers. Text from the records only ever becomes a text node or the value of an attribute.

const SVG_NAMESPACE = "http://www.w3.org/2000/svg";
const NOTHING = "–";

function build(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value !== null && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

/** An HTML element with attributes and children; strings become text. */
function element(name, attributes, ...children) {
  return build(document.createElement(name), attributes, children);
}

/** An SVG element. */
function drawn(name, attributes, ...children) {
  return build(document.createElementNS(SVG_NAMESPACE, name), attributes, children);
}

/** Distinct values in the order in which they come first. */
function distinct(values) {
  return [...new Set(values)];
}

/** A number with three or four significant digits; a dash for a missing one. */
function shown(value) {
  if (value === null || value === undefined) return NOTHING;
  const size = Math.abs(value);
  if (size === 0) return "0";
  if (size >= 100000 || size < 0.0001) return value.toExponential(2);
  if (size >= 1000) return Math.round(value).toLocaleString("en");
  return String(Number(value.toPrecision(4)));
}

/** Percent of a share in [0, 1]. */
function percent(share) {
  return share === null || share === undefined ? NOTHING : `${(100 * share).toFixed(2)} %`;
}

/** Options of a select, of text and value, for some values. */
function each(values) {
  return values.map((value) => [String(value), value]);
}

/** Add a select with its label to some controls, hidden if it has fewer than `fewest` options of text and value. */
function addSelect(controls, label, options, changed, fewest = 2) {
  const select = element("select", {}, ...options.map(([text, value]) => element("option", { value }, text)));
  select.addEventListener("change", changed);
  const box = element("label", {}, label, select);
  box.hidden = options.length < fewest;
  controls.append(box);
  return select;
}

/** Call `draw` with the width of an element, now and whenever it changes; returns a function that draws it again. */
function whenSized(box, draw) {
  let last = 0;
  const observer = new ResizeObserver(() => {
    const width = Math.floor(box.clientWidth);
    if (width > 0 && width !== last) {
      last = width;
      draw(width);
    }
  });
  observer.observe(box);
  return () => {
    last = Math.floor(box.clientWidth);
    if (last > 0) draw(last);
  };
}
