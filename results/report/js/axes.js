// Scales, and the frame of a chart with its axes.

const MARGIN = { left: 62, right: 14, top: 12, bottom: 44 };

/** Map values to places along a line; on a logarithmic one values must be positive. */
function scaleOf([low, high], [from, to], logarithmic) {
  const turn = logarithmic ? Math.log10 : (value) => value;
  const start = turn(low);
  const span = turn(high) - start || 1;
  const place = (value) => from + ((turn(value) - start) / span) * (to - from);
  place.domain = [low, high];
  place.ticks = logarithmic ? logarithmicTicks(low, high) : evenTicks(low, high, Math.abs(to - from) / 60);
  return place;
}

/** Round numbers in a range, about as many as asked for. */
function evenTicks(low, high, count) {
  const rough = (high - low) / Math.max(count, 2);
  if (!(rough > 0)) return [low];
  const unit = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((times) => times * unit).find((size) => size >= rough * 0.999);
  const ticks = [];
  for (let index = Math.ceil(low / step - 1e-9); index * step <= high + step * 1e-9; index += 1) {
    ticks.push(Number((index * step).toPrecision(12)));
  }
  return ticks;
}

/** Powers of ten in a range; where there are few, twice and five times as much, too. */
function logarithmicTicks(low, high) {
  const powers = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power += 1) powers.push(power);
  const steps = Math.log10(high / low) > 2.5 ? [1] : [1, 2, 5];
  return powers
    .flatMap((power) => steps.map((step) => Number((step * 10 ** power).toPrecision(12))))
    .filter((tick) => tick >= low * 0.999 && tick <= high * 1.001);
}

/** The smallest range around all values with a little room; a single value gets room, too. */
function around(values, logarithmic) {
  const known = values.filter((value) => value !== null && value !== undefined && (!logarithmic || value > 0));
  if (known.length === 0) return logarithmic ? [0.1, 1] : [0, 1];
  const low = Math.min(...known);
  const high = Math.max(...known);
  if (logarithmic) {
    const room = Math.max((high / low) ** 0.06, 1.1);
    return [low / room, high * room];
  }
  const room = 0.06 * (high - low) || 0.05 * Math.abs(high) || 0.5;
  return [low - room, high + room];
}

/**
 * An empty chart.
 *
 * x and y have `domain`, `label`, and where wanted `logarithmic`, `ticks`, `write` for the numbers.
 * Returns the svg, the scales, the area to draw in, and where it lies.
 */
function newChart({ width, height, x, y, name }) {
  const right = width - MARGIN.right;
  const bottom = height - MARGIN.bottom;
  const svg = drawn("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": name });
  const across = scaleOf(x.domain, [MARGIN.left, right], x.logarithmic);
  const up = scaleOf(y.domain, [bottom, MARGIN.top], y.logarithmic);
  const axes = drawn("g", { "aria-hidden": "true" });
  for (const tick of x.ticks ?? across.ticks) {
    const place = across(tick);
    axes.append(drawn("line", { class: "grid-line", x1: place, x2: place, y1: MARGIN.top, y2: bottom }));
    axes.append(drawn("text", { x: place, y: bottom + 16, "text-anchor": "middle" }, (x.write ?? shown)(tick)));
  }
  for (const tick of y.ticks ?? up.ticks) {
    const place = up(tick);
    axes.append(drawn("line", { class: "grid-line", x1: MARGIN.left, x2: right, y1: place, y2: place }));
    axes.append(drawn("text", { x: MARGIN.left - 6, y: place + 4, "text-anchor": "end" }, (y.write ?? shown)(tick)));
  }
  axes.append(drawn("line", { class: "axis-line", x1: MARGIN.left, x2: right, y1: bottom, y2: bottom }));
  axes.append(drawn("line", { class: "axis-line", x1: MARGIN.left, x2: MARGIN.left, y1: MARGIN.top, y2: bottom }));
  const middle = (MARGIN.left + right) / 2;
  axes.append(drawn("text", { x: middle, y: height - 6, "text-anchor": "middle" }, x.label ?? ""));
  const beside = `translate(14 ${(MARGIN.top + bottom) / 2}) rotate(-90)`;
  axes.append(drawn("text", { transform: beside, "text-anchor": "middle" }, y.label ?? ""));
  const plot = drawn("g", {});
  svg.append(axes, plot);
  return { svg, plot, x: across, y: up, area: { left: MARGIN.left, right, top: MARGIN.top, bottom } };
}
