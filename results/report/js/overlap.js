// What learners gain on corruptions, against how near they came to these in training.

/** A marker for each method and corruption. */
function startOverlap(section, data, methods) {
  const { points } = data;
  const { figure, box, note, tip, choose } = newExplorer(section, methods, draw);
  const comparison = choose("Data set", each(distinct(points.map((point) => point.comparison))));
  const set = choose("Corruptions", each(distinct(points.map((point) => point.set))));

  function draw(width) {
    const here = points.filter((point) => point.comparison === comparison.value && point.set === set.value);
    const chosen = here.filter((point) => methods.isShown(point.label));
    const chart = newChart({
      width: Math.min(width, 720),
      height: 420,
      name: `Gain against smallest distance, ${set.value}, ${comparison.value}`,
      x: { domain: around([0, 100, ...chosen.map((point) => point.distance)]), label: "Smallest distance (% of that of unchanged images)" },
      y: { domain: around([0, ...chosen.map((point) => point.gain)]), label: "Gain over none (points)" },
    });
    const { left, right, top, bottom } = chart.area;
    const unchanged = [[chart.x(100), top], [chart.x(100), bottom], null, [left, chart.y(0)], [right, chart.y(0)]];
    chart.plot.append(drawn("path", { class: "guide", d: pathThrough(unchanged) }));
    const entries = chosen.sort((first, second) => first.distance - second.distance).map((point) => drawPoint(chart, point));
    box.replaceChildren(chart.svg);
    makeReachable(figure, tip, entries);
    const shownMethods = distinct(chosen.map((point) => point.label)).length;
    note.textContent = chosen.length
      ? `${shownMethods} of ${distinct(here.map((point) => point.label)).length} methods shown.`
      : "There is nothing to show for this choice.";
  }

  function drawPoint(chart, { label, corruption, distance, gain, seeds }) {
    const [x, y] = [chart.x(distance), chart.y(gain)];
    const ring = drawn("circle", { class: "ring", cx: x, cy: y, r: 10 });
    const node = drawn("g", { class: "point" }, ring, marker(methods.look(label), x, y, 4.5));
    chart.plot.append(node);
    const seen = [`distance ${shown(distance)} %`, `gain ${shown(gain)} points`];
    return { node, lines: [label, corruption, ...seen, seeds === 1 ? "1 seed" : `${seeds} seeds`] };
  }
}
