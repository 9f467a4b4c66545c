// What a pointer or the keyboard is on: a tip beside it, and one stop of the Tab key for each chart.

/**
 * The parts of a section with a chart: its figure, the box to draw in, its note and tip, and `choose`, which adds a
 * select. `draw` gets the width of the box, now and whenever anything changes.
 */
function newExplorer(section, methods, draw) {
  const figure = section.querySelector("figure");
  const box = figure.querySelector("[data-chart]");
  const controls = section.querySelector(".controls");
  const redraw = whenSized(box, (width) => keepingFocus(box, () => draw(width)));
  methods.whenChanged(redraw);
  return {
    figure,
    box,
    note: section.querySelector("[role=status]"),
    tip: newTip(figure),
    choose: (label, options) => addSelect(controls, label, options, redraw),
  };
}

/** A tip that belongs to a figure; screen readers get the same words from the marker. */
function newTip(figure) {
  const tip = element("div", { class: "tip", "aria-hidden": "true" });
  tip.hidden = true;
  figure.append(tip);
  return {
    show(lines, x, y) {
      tip.replaceChildren(...lines.map((line) => element("p", {}, line)));
      tip.hidden = false;
      const room = figure.clientWidth - tip.offsetWidth;
      tip.style.left = `${Math.max(0, Math.min(x + 14, room))}px`;
      tip.style.top = `${y + 14}px`;
    },
    hide() {
      tip.hidden = true;
    },
  };
}

/** Where in a figure an element of one of its charts begins. */
function placeIn(figure, part) {
  const outer = figure.getBoundingClientRect();
  const inner = part.getBoundingClientRect();
  return [inner.left - outer.left + inner.width / 2, inner.top - outer.top + inner.height / 2];
}

/**
 * Make points reachable: one of them by Tab, the others from there by the arrow keys, Home and End.
 *
 * Each entry has the `node`, which becomes an image with a name, and `lines`, what is said of it.
 */
function makeReachable(figure, tip, entries) {
  entries.forEach(({ node, lines }, index) => {
    node.setAttribute("tabindex", index === 0 ? "0" : "-1");
    node.setAttribute("role", "img");
    node.setAttribute("aria-label", lines.join(", "));
    const show = () => tip.show(lines, ...placeIn(figure, node));
    node.addEventListener("pointerenter", show);
    node.addEventListener("focus", show);
    node.addEventListener("pointerleave", tip.hide);
    node.addEventListener("blur", tip.hide);
    node.addEventListener("keydown", (event) => {
      const next = nextIndex(event.key, index, entries.length);
      if (event.key === "Escape") tip.hide();
      if (next === null) return;
      event.preventDefault();
      node.setAttribute("tabindex", "-1");
      entries[next].node.setAttribute("tabindex", "0");
      entries[next].node.focus();
    });
  });
}

/** Where a key leads from one of some entries; null if nowhere. */
function nextIndex(key, index, count) {
  if (key === "Home") return 0;
  if (key === "End") return count - 1;
  const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[key];
  return step === undefined ? null : (index + step + count) % count;
}

/** Keep where the keyboard is in a chart over its being drawn again. */
function keepingFocus(box, draw) {
  const points = [...box.querySelectorAll("[tabindex]")];
  const focused = points.indexOf(document.activeElement);
  draw();
  if (focused >= 0) {
    const again = [...box.querySelectorAll("[tabindex]")][focused];
    if (again) again.focus();
  }
}
