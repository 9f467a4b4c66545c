// Accuracy on corrupted test images, by severity.

/** A line for each method: the mean over seeds for one corruption, or over all that count. */
function startShift(section, data, methods) {
  const { lines } = data;
  const { figure, box, note, tip, choose } = newExplorer(section, methods, draw);
  const comparison = choose("Data set", each(distinct(lines.map((line) => line.comparison))));
  const several = distinct(lines.map((line) => line.set)).length > 1;
  const nameOf = (line) => (several ? `${line.set}: ` : "") + (line.corruption || "mean, without extra ones");
  const corruption = choose("Corruption", each(distinct(lines.map(nameOf))));

  function draw(width) {
    const here = lines.filter((line) => line.comparison === comparison.value && nameOf(line) === corruption.value);
    const chosen = here.filter((line) => methods.isShown(line.label));
    const size = Math.min(width, 640);
    const severities = distinct(here.flatMap((line) => line.severities)).sort((a, b) => a - b);
    const chart = newChart({
      width: size,
      height: Math.min(size, 400),
      name: `Accuracy by severity, ${corruption.value}, ${comparison.value}`,
      x: { domain: [-0.25, 5.25], ticks: severities, label: "Severity (0: clean images)" },
      y: { domain: around(chosen.flatMap((line) => [...line.low, ...line.high])), label: "Accuracy (%)" },
    });
    const entries = chosen.flatMap((line) => drawLine(chart, line));
    box.replaceChildren(chart.svg);
    makeReachable(figure, tip, entries);
    note.textContent = chosen.length
      ? `${chosen.length} of ${here.length} methods shown.`
      : "There is nothing to show for this choice.";
  }

  function drawLine(chart, { label, seeds, severities, mean, low, high }) {
    const look = methods.look(label);
    const places = severities.map((severity, index) => [chart.x(severity), chart.y(mean[index])]);
    chart.plot.append(curve(look, places));
    return places.map(([x, y], index) => {
      const ring = drawn("circle", { class: "ring", cx: x, cy: y, r: 10 });
      const node = drawn("g", { class: "point" }, ring, marker(look, x, y, 4));
      chart.plot.append(node);
      const severity = severities[index] === 0 ? "clean images" : `severity ${severities[index]}`;
      const range = seeds > 1 ? [`${shown(low[index])} to ${shown(high[index])} % over ${seeds} seeds`] : [];
      return { node, lines: [label, severity, `accuracy ${shown(mean[index])} %`, ...range] };
    });
  }
}
