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

/** What the page was given, as one object. */
function readData() {
  return JSON.parse(document.getElementById("data").textContent);
}

/** Distinct values in the order in which they come first. */
function distinct(values) {
  return [...new Set(values)];
}

/** A number with three or four digits that say something; a dash for nothing. */
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

/** Fill a select with options of text and value, and choose the first that is wanted. */
function fillSelect(select, options, wanted) {
  select.replaceChildren(...options.map(([text, value]) => element("option", { value }, text)));
  const values = options.map(([, value]) => String(value));
  select.value = values.includes(String(wanted)) ? wanted : values[0];
}

/** Add a select with its label to some controls, or hide it where there are too few options to choose from. */
function addSelect(controls, label, options, wanted, changed, fewest = 2) {
  const select = element("select", {});
  fillSelect(select, options, wanted);
  select.addEventListener("change", changed);
  const box = element("label", {}, label, select);
  box.hidden = options.length < fewest;
  controls.append(box);
  return select;
}

/** Call something with the width of an element, now and whenever it changes. */
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
