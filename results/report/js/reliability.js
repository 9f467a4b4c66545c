// How often predictions are right, against how confident they are.

/** Reliability diagrams: a panel for the lines, and one for how many images are in each bin. */
function startReliability(section, data, methods) {
  const { few, lines } = data;
  const { figure, box, note, tip, choose } = newExplorer(section, methods, draw);
  const comparison = choose("Data set", each(distinct(lines.map((line) => line.comparison))));
  const draws = choose("Test-time draws", each(distinct(lines.map((line) => line.draws)).sort((a, b) => a - b)));
  const whole = { domain: [0, 100], ticks: [0, 20, 40, 60, 80, 100] };

  function draw(width) {
    const here = lines.filter((line) => line.comparison === comparison.value && String(line.draws) === draws.value);
    const chosen = here.filter((line) => methods.isShown(line.label));
    const size = Math.min(width, 640);
    const upper = newChart({
      width: size,
      height: Math.min(size, 480),
      name: `Accuracy against confidence, ${comparison.value}`,
      x: { ...whole, label: "Confidence (%)" },
      y: { ...whole, label: "Accuracy (%)" },
    });
    const diagonal = [[upper.x(0), upper.y(0)], [upper.x(100), upper.y(100)]];
    upper.plot.append(drawn("path", { class: "guide", d: pathThrough(diagonal) }));
    const entries = chosen.flatMap((line) => drawLine(upper, line));
    const lower = newChart({
      width: size,
      height: 170,
      name: `Fraction of the images in each bin, ${comparison.value}`,
      x: { ...whole, label: "Confidence (%)" },
      y: { domain: [0.05, 120], logarithmic: true, ticks: [0.1, 1, 10, 100], label: "Images (%, log)" },
    });
    for (const line of chosen) drawShares(lower, line);
    box.replaceChildren(upper.svg, lower.svg);
    makeReachable(figure, tip, entries);
    note.textContent = chosen.length
      ? `${chosen.length} of ${here.length} methods shown.`
      : "There is nothing to show for this choice.";
  }

  function drawLine(chart, { label, bins }) {
    const look = methods.look(label);
    const filled = bins
      .map(([count, confidence, accuracy], index) => ({ count, confidence, accuracy, index }))
      .filter(({ count }) => count >= few);
    const place = ({ confidence, accuracy }) => [chart.x(100 * confidence), chart.y(100 * accuracy)];
    chart.plot.append(curve(look, filled.map(place)));
    return filled.map((bin) => {
      const { count, confidence, accuracy, index } = bin;
      const [x, y] = place(bin);
      const ring = drawn("circle", { class: "ring", cx: x, cy: y, r: 10 });
      const node = drawn("g", { class: "point" }, ring, marker(look, x, y, 4));
      chart.plot.append(node);
      const range = `bin ${index + 1} of ${bins.length}: ${count.toLocaleString("en")} images`;
      return { node, lines: [label, range, `confidence ${percent(confidence)}`, `accuracy ${percent(accuracy)}`] };
    });
  }

  function drawShares(chart, { label, bins }) {
    const total = bins.reduce((sum, [count]) => sum + count, 0);
    const [least] = chart.y.domain;
    const places = bins.flatMap(([count], index) => {
      const y = chart.y(Math.max(least, (100 * count) / total));
      return [[chart.x((100 * index) / bins.length), y], [chart.x((100 * (index + 1)) / bins.length), y]];
    });
    chart.plot.append(curve(methods.look(label), places));
  }
}
