// Quality against cost, with the Pareto front.

/**
 * Indices of the points that no other one beats: at most as expensive and at least as good, and better in one of both.
 *
 * Each point has a `cost`, less is better, and a `score`, of which `sign` says whether more is better (1) or less (-1).
 */
function frontOf(points, sign) {
  const order = points
    .map((point, index) => [point.cost, -sign * point.score, index])
    .sort((first, second) => first[0] - second[0] || first[1] - second[1]);
  const front = [];
  for (const [cost, worse, index] of order) {
    const last = front.at(-1);
    if (!last || worse < last[1] || (worse === last[1] && cost === last[0])) front.push([cost, worse, index]);
  }
  return front.map(([, , index]) => index);
}

/** The explorer: what is on either axis, for which data set, device and number of draws, means or single runs. */
function startPareto(section, data, methods) {
  const { metrics, costs, draws, groups, runs } = data;
  const { figure, box, note, tip, choose } = newExplorer(section, methods, draw);
  const named = (entries) => entries.map(({ name, label }) => [label, name]);
  const clocked = runs.filter((run) => run.costs.work !== null);
  const comparison = choose("Data set", each(distinct(groups.map((group) => group.comparison))));
  const metric = choose("Metric", named(metrics));
  const drawnWith = choose("Test-time draws", each(draws));
  const cost = choose("Cost", named(costs));
  const device = choose("Device", each(distinct(clocked.map((run) => run.device))));
  const pointsAre = choose("Points", [["means over seeds", "groups"], ["single runs", "runs"]]);

  /** Of means: whether seeds that were asked for are missing. */
  function lacksSeeds(entry) {
    return entry.n < entry.asked;
  }

  function selected() {
    const isTime = costs.find(({ name }) => name === cost.value).is_time;
    return (pointsAre.value === "groups" ? groups : runs)
      .filter((entry) => entry.comparison === comparison.value && methods.isShown(entry.label))
      .filter((entry) => !isTime || entry.device === device.value)
      .map((entry) => ({
        entry,
        cost: entry.costs[cost.value] ?? null,
        score: entry.scores[drawnWith.value]?.[metric.value]?.[0] ?? null,
        spread: entry.scores[drawnWith.value]?.[metric.value]?.[1] ?? null,
      }))
      .filter((point) => point.cost > 0 && point.score !== null);
  }

  function draw(width) {
    const { label, higher, share } = metrics.find(({ name }) => name === metric.value);
    const { label: costLabel, is_time: isTime } = costs.find(({ name }) => name === cost.value);
    device.parentElement.hidden = device.options.length < 2 || !isTime;
    const points = selected();
    const rated = points.filter(({ entry }) => !lacksSeeds(entry));
    const front = new Set(frontOf(rated, higher ? 1 : -1).map((index) => rated[index]));
    const factor = share ? 100 : 1;
    const spreads = points.flatMap(({ score, spread }) => [score - (spread ?? 0), score + (spread ?? 0)]);
    const values = points.map((point) => point.cost);
    const logarithmic = values.length > 0 && Math.max(...values) / Math.min(...values) > 5;
    const chart = newChart({
      width: Math.min(width, 860),
      height: 420,
      name: `${label} against ${costLabel}, ${comparison.value}`,
      x: { domain: around(values, logarithmic), logarithmic, label: `${costLabel}${logarithmic ? " (log scale)" : ""}` },
      y: { domain: around(spreads.map((value) => factor * value)), label: label + (higher ? ", higher is better" : ", lower is better") },
    });
    drawFront(chart, [...front], factor);
    const entries = points
      .sort((first, second) => first.cost - second.cost)
      .map((point) => drawPoint(chart, point, front.has(point), factor, label, costLabel));
    box.replaceChildren(chart.svg);
    makeReachable(figure, tip, entries);
    const names = distinct([...front].map(({ entry }) => entry.label));
    const said = names.length
      ? `The Pareto front, the cheapest first: ${names.join(", ")}.`
      : "There is no Pareto front, since all methods lack seeds.";
    note.textContent = points.length
      ? `${points.length === 1 ? "1 point" : `${points.length} points`}. ${said}`
      : `There is nothing to show for this choice.${timeless(isTime)}`;
  }

  /** Why means may be missing if a time is chosen. */
  function timeless(isTime) {
    const moved = pointsAre.value === "groups" && groups.some(({ costs: known }) => known.work === null);
    return isTime && moved ? " Means of runs on several devices have no time; look at single runs." : "";
  }

  function drawFront(chart, front, factor) {
    const places = front.map(({ cost: at, score }) => [chart.x(at), chart.y(factor * score)]);
    const steps = places.flatMap((place, index) => (index ? [[place[0], places[index - 1][1]], place] : [place]));
    if (steps.length > 1) chart.plot.append(drawn("path", { class: "front", d: pathThrough(steps) }));
  }

  function drawPoint(chart, { entry, cost: at, score, spread }, onFront, factor, label, costLabel) {
    const look = methods.look(entry.label);
    const [x, y] = [chart.x(at), chart.y(factor * score)];
    const node = drawn("g", { class: `point${lacksSeeds(entry) ? " lacking" : ""}` });
    node.append(drawn("circle", { class: "ring", cx: x, cy: y, r: 11 }));
    if (spread) {
      const [upper, lower] = [chart.y(factor * (score + spread)), chart.y(factor * (score - spread))];
      node.append(drawn("line", { class: `error look-${look.colour}`, x1: x, x2: x, y1: upper, y2: lower }));
    }
    node.append(marker(look, x, y, 5.5));
    chart.plot.append(node);
    const decimals = factor === 1 ? 4 : 2;
    const [mean, deviation] = [score, spread].map((value) => value !== null && (factor * value).toFixed(decimals));
    const seeds = lacksSeeds(entry) ? `${entry.n} of ${entry.asked} seeds, so not in the front` : `${entry.n} seeds`;
    const lines = [
      entry.label,
      `${label}: ${mean}${spread === null ? "" : ` ± ${deviation}`}`,
      `${costLabel}: ${shown(at)}`,
      entry.folder ? `seed ${entry.seed}, run ${entry.folder}` : seeds.replace(/^1 seeds$/, "1 seed"),
      entry.device,
    ];
    return { node, lines: onFront ? [...lines, "on the Pareto front"] : lines };
  }
}
