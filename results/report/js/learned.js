// What is learned, over the epochs.

const TRAINING = "training";

/** Panels for one data set and one kind of number: one for each method, a line for each number. */
function startLearned(section, data, methods) {
  const { kinds, looks, panels } = data;
  const { figure, box, tip, choose } = newExplorer(section, methods, draw);
  box.classList.add("panels");
  const comparison = choose("Data set", each(distinct(panels.map((panel) => panel.comparison))));
  const learned = kinds.filter(({ name }) => name !== TRAINING);
  const all = learned.length > 1 ? [["all that are learned", ""]] : [];
  const kind = choose("Numbers", [...all, ...kinds.map(({ name, label }) => [label, name])]);

  function draw() {
    const chosen = panels.filter(
      (panel) =>
        panel.comparison === comparison.value &&
        (kind.value === "" ? panel.kind !== TRAINING : panel.kind === kind.value) &&
        methods.isShown(panel.label),
    );
    const boxes = chosen.map((panel) => element("div", { class: "panel-box" }, element("h4", {}, panel.label)));
    box.replaceChildren(...boxes);
    if (chosen.length === 0) box.append(element("p", {}, "There is nothing to show for this choice."));
    // all boxes stand in the page before any is measured
    const widths = boxes.map((one) => one.clientWidth);
    chosen.forEach((panel, index) => drawPanel(boxes[index], panel, widths[index]));
  }

  function drawPanel(place, panel, width) {
    const { label, in_percent: inPercent } = kinds.find(({ name }) => name === panel.kind);
    const values = panel.lines.flatMap((line) => [...line.low, ...line.high]);
    const { epochs } = panel;
    const last = epochs.at(-1);
    const domain = epochs.length > 1 ? [epochs[0], last] : [last - 1, last + 1];
    const chart = newChart({
      width,
      height: 250,
      name: `${label} over the epochs, ${panel.label}, ${panel.comparison}`,
      x: { domain, ticks: evenTicks(...domain, width / 60).filter(Number.isInteger), label: "Epoch" },
      y: inPercent
        ? { domain: [0, Math.max(100, ...values)], ticks: [0, 25, 50, 75, 100], label }
        : { domain: around(values), label },
    });
    for (const line of panel.lines) {
      const look = looks[line.name];
      const places = (numbers) => numbers.map((value, index) => [chart.x(epochs[index]), chart.y(value)]);
      chart.plot.append(band(look, places(line.high), places(line.low)), curve(look, places(line.mean)));
      if (epochs.length === 1) chart.plot.append(marker(look, ...places(line.mean)[0], 4));
    }
    const names = panel.lines.map(({ name }) => element("span", {}, sample({ ...looks[name], marker: null }), name));
    place.append(chart.svg, element("div", { class: "legend" }, ...names));
    followEpochs(chart, panel, inPercent);
  }

  /** Read off the lines at an epoch: that under the pointer, or the one that the arrow keys lead to. */
  function followEpochs(chart, panel, inPercent) {
    const { area, svg } = chart;
    const cursor = drawn("line", { class: "cursor", y1: area.top, y2: area.bottom, visibility: "hidden" });
    const size = { x: area.left, y: area.top, width: area.right - area.left, height: area.bottom - area.top };
    const ring = drawn("rect", { class: "ring", ...size });
    const surface = drawn("rect", { ...size, fill: "transparent" });
    const node = drawn("g", { class: "panel", tabindex: "0", role: "img" }, ring, surface);
    chart.plot.append(cursor, node);
    let at = panel.epochs.length - 1;
    const unit = inPercent ? " %" : "";
    const said = () => [
      `${panel.label}, epoch ${panel.epochs[at]}`,
      ...panel.lines.map(
        ({ name, mean, low, high }) =>
          `${name}: ${shown(mean[at])}${unit}` +
          (panel.seeds > 1 ? ` (${shown(low[at])} to ${shown(high[at])} over ${panel.seeds} seeds)` : ""),
      ),
    ];
    const name = () => node.setAttribute("aria-label", said().join(", "));
    function show() {
      const x = chart.x(panel.epochs[at]);
      for (const end of ["x1", "x2"]) cursor.setAttribute(end, x);
      cursor.setAttribute("visibility", "visible");
      const [middle, centre] = placeIn(figure, svg);
      tip.show(said(), middle - svg.clientWidth / 2 + x, centre - 90);
    }
    function hide() {
      cursor.setAttribute("visibility", "hidden");
      tip.hide();
    }
    node.addEventListener("pointermove", (event) => {
      const x = event.clientX - svg.getBoundingClientRect().left;
      const distances = panel.epochs.map((epoch) => Math.abs(chart.x(epoch) - x));
      at = distances.indexOf(Math.min(...distances));
      show();
    });
    node.addEventListener("focus", show);
    node.addEventListener("pointerleave", hide);
    node.addEventListener("blur", hide);
    node.addEventListener("keydown", (event) => {
      if (event.key === "Escape") return hide();
      const last = panel.epochs.length - 1;
      const steps = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: last };
      if (steps[event.key] === undefined) return;
      event.preventDefault();
      at = Math.max(0, Math.min(last, steps[event.key]));
      name();
      show();
    });
    name();
  }
}
