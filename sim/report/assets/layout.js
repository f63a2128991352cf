// @ts-check
// Layout of charts: scales with round ticks, columns of panels, rows of shift names.

const FONT = 12;
const ROW = 15;

function scale(low, high, from, to) {
  const at = (value) => from + ((value - low) / (high - low)) * (to - from);
  return Object.assign(at, { low, high });
}

function roundStep(span, count, whole) {
  const rough = span / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((factor) => factor * power >= rough * 0.999) * power;
  return whole ? Math.max(1, step) : step;
}

function ticks(low, high, step) {
  const decimals = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  const format = { minimumFractionDigits: decimals, maximumFractionDigits: decimals };
  const first = Math.ceil(low / step - 1e-6);
  const count = Math.floor(high / step + 1e-6) - first + 1;
  return Array.from({ length: Math.max(0, count) }, (_, i) => {
    const value = (first + i) * step || 0;
    return { value, text: value.toLocaleString("en", format).replace("-", "−") };
  });
}

function extremes(values) {
  let [low, high] = [Infinity, -Infinity];
  for (const value of values) {
    if (value === null) continue;
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  return low > high ? null : [low, high];
}

// Return as many ticks as fit along an axis with their labels, and the step between them.
/** @param {number[]} range lowest and highest value */
function fittingTicks([low, high], length, whole, gap) {
  for (let count = Math.floor(length / (gap + 8)); ; count--) {
    const step = roundStep(high - low, count, whole);
    const fitting = ticks(low, high, step);
    const widest = Math.max(...fitting.map(({ text }) => textWidth(text)));
    if (count <= 1 || widest + gap <= (step / (high - low)) * length) return { step, fitting };
  }
}

// Return the range of a value axis. It starts at zero if the values are near zero; wide intervals are cut off so that
// the values remain readable, and a single value is not at the border.
function rangeOf(values, ends, nearZero) {
  const [least, most] = extremes(values) ?? [0, 1];
  const room = 0.5 * Math.max(most - least, 0.3 * Math.abs(most));
  const [lowEnd, highEnd] = extremes(ends) ?? [least, most];
  const low = Math.min(least, Math.max(lowEnd, least - room, least < 0 ? -Infinity : 0));
  const high = Math.max(most, Math.min(highEnd, most + room));
  const pad = 0.05 * (Math.max(high - low, 0.5 * Math.abs(high)) || 1);
  if (low < 0) return [low - pad, high + pad];
  return [low <= nearZero * high ? 0 : Math.max(0, low - pad), high + pad];
}

// Return the range of an index axis, without margins.
function spanOf(values) {
  const [low, high] = extremes(values) ?? [0, 1];
  return [low >= 0 && low < 0.1 * high ? 0 : low, high > low ? high : low + 1];
}

function ranges(chart) {
  const all = chart.panels.flatMap((panel) => panel.curves);
  const curves = all.some(isOn) ? all.filter(isOn) : all;
  const of = (...keys) => keys.flatMap((key) => curves.flatMap((curve) => curve[key] ?? []));
  const nearZero = chart.equal ? 0.25 : 0.4;
  const users = (key) => curves.flatMap((curve) => curve.each ?? []).flatMap((own) => own[key]);
  // Values of single users are always in range, except ratios, which are unbounded if the loss is near zero.
  const [own, ratios] = chart.y.unit ? [users("y"), []] : [[], users("y")];
  const ends = of("x_low", "x_high");
  const x = chart.equal ? rangeOf([...of("x"), ...users("x")], ends, nearZero) : spanOf([...of("x"), ...ends]);
  return { x, y: rangeOf([...of("y"), ...own], [...of("low", "high"), ...ratios], nearZero) };
}

const ruler = document.createElement("canvas").getContext("2d");
ruler.font = `${FONT}px ${getComputedStyle(document.body).fontFamily}`;
const textWidths = new Map();

function textWidth(text) {
  if (!textWidths.has(text)) textWidths.set(text, ruler.measureText(text).width);
  return textWidths.get(text);
}

function shortened(text, most) {
  const letters = [...text];
  return letters.length > most ? `${letters.slice(0, most - 1).join("")}…` : text;
}

function columnsFor(count, width, least) {
  const most = Math.max(1, Math.floor(width / least));
  return Math.ceil(count / Math.ceil(count / most));
}

// Return the layout of a figure: columns of panels, plot size, axis ranges and ticks.
function layOut(chart, width, small, leastLeft = 0) {
  const { x, y } = ranges(chart);
  const columns = small
    ? Math.max(1, Math.floor(width / (width < 600 ? 150 : 190)))
    : columnsFor(chart.panels.length, width, chart.equal ? 340 : 320);
  let [left, inset, right, plot] = [Math.max(40, leastLeft), 12, 18, null];
  for (let pass = 0; pass < 2; pass++) {
    const room = Math.max(60, (width - left - (columns - 1) * inset - columns * right) / columns);
    plot = chart.equal ? equalPlot(x, y, room, columns > 1) : freePlot(chart, x, y, room, small);
    left = Math.max(leastLeft, Math.ceil(Math.max(...plot.yTicks.map(({ text }) => textWidth(text)), 8)) + 10);
    right = Math.ceil(textWidth(plot.xTicks.at(-1)?.text ?? "") / 2) + 6;
  }
  return { ...plot, columns, left, inset, right, small, ...placeMarks(chart.marks, plot, small) };
}

const gapFor = (width) => (width > 600 ? 48 : 28);

function freePlot(chart, x, y, width, small) {
  const height = small ? 84 : Math.round(Math.min(250, Math.max(170, 0.42 * width)));
  const xTicks = fittingTicks(x, width, chart.x.whole, small ? 14 : gapFor(width)).fitting;
  const yStep = roundStep(y[1] - y[0], height / (small ? 22 : 32), chart.y.whole);
  return { width, height, x, y, xTicks, yTicks: ticks(...y, yStep) };
}

// Return a plot with equal scales and a common origin; if it is too flat or too narrow, an axis is extended.
/**
 * @param {number[]} xRange lowest and highest value
 * @param {number[]} yRange lowest and highest value
 */
function equalPlot([xLow, xHigh], [yLow, yHigh], room, several) {
  const low = Math.min(xLow, yLow);
  const perUnit = Math.min(room / (xHigh - low), (several ? 400 : 460) / (yHigh - low));
  const width = Math.min(room, Math.max((xHigh - low) * perUnit, 250));
  const height = Math.max((yHigh - low) * perUnit, Math.min(200, room));
  const [x, y] = [[low, low + width / perUnit], [low, low + height / perUnit]];
  const { step, fitting } = fittingTicks(x, width, false, gapFor(width));
  return { width, height, x, y, xTicks: fitting, yTicks: ticks(...y, step) };
}

function isNarrow(chart, width) {
  const fits = chart.equal && chart.panels.length === 1 && chart.panels[0].curves.length <= 12;
  return fits && layOut(chart, width, false).width < width - 100;
}

// Assign rows above the plot to the names of shifts, the last one lowest, so that neither names nor lines overlap.
function placeMarks(marks, { x, width }, small) {
  const at = scale(...x, 0, width);
  const starts = [];
  const within = marks.filter((mark) => mark.x >= x[0] && mark.x <= x[1]).sort((one, other) => other.x - one.x);
  const placed = within.map((mark) => {
    if (small || mark.ends) return { ...mark, row: null };
    const text = shortened(mark.name, 24);
    const length = textWidth(text) + 12;
    const start = Math.max(0, Math.min(at(mark.x), width - length + 16));
    const free = starts.findIndex((taken) => start + length <= taken);
    const row = free < 0 ? starts.length : free;
    starts[row] = start;
    return { ...mark, text, start, row };
  });
  return { marks: placed, markRows: starts.length };
}
