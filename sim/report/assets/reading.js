// @ts-check
// Tooltips of charts: values at the pointer, or at the point selected with the arrow keys.

const tip = element("div", { class: "tip", role: "status", hidden: true });
document.body.append(tip);
let reading = null;

addEventListener("scroll", () => reading?.place(), { passive: true });

// Return the points that share a tooltip, from left to right: one point of a trade-off, or all points of a time series
// at the same x.
function stopsOf(curves, equal) {
  const points = curves.flatMap((curve) => curve.points).filter((point) => point.known);
  const together = new Map();
  points.forEach((point, i) => {
    const key = equal ? i : point.curve.x[point.i];
    if (!together.has(key)) together.set(key, []);
    together.get(key).push(point);
  });
  const stops = [...together.values()].map((nearby) => {
    nearby.sort((one, other) => one.y - other.y);
    return { x: nearby[0].x, y: nearby[0].y, points: nearby };
  });
  return stops.sort((one, other) => one.x - other.x);
}

// Add tooltips to a plot {chart, stops, marks, focus, top, bottom}, in its own pixels.
function readable(svg, plot) {
  let at = -1;
  const show = (stop) => {
    if (!stop) return;
    at = plot.stops.indexOf(stop);
    highlight(plot, stop);
    tip.replaceChildren(...(plot.chart.equal ? pointText(plot, stop) : seriesText(plot, stop)));
    reading = { svg, place: () => placeTip(svg, stop) };
    reading.place();
  };
  const leave = () => {
    plot.focus.replaceChildren();
    if (reading?.svg === svg) hideTip();
  };
  const point = (event) => show(nearest(plot, event, svg));
  svg.addEventListener("pointermove", point);
  svg.addEventListener("pointerdown", point);
  svg.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && leave());
  svg.addEventListener("focus", () => svg.matches(":focus-visible") && show(plot.stops[Math.max(at, 0)]));
  svg.addEventListener("blur", leave);
  svg.addEventListener("keydown", (event) => {
    const last = plot.stops.length - 1;
    const goals = { ArrowLeft: Math.max(at - 1, 0), ArrowRight: Math.min(at + 1, last), Home: 0, End: last };
    if (event.key in goals) show(plot.stops[goals[event.key]]);
    else if (event.key === "ArrowUp" || event.key === "ArrowDown") focusOther(svg, event.key === "ArrowUp" ? -1 : 1);
    else if (event.key === "Escape") leave();
    else return;
    event.preventDefault();
  });
}

// The tab key reaches one panel of a figure, the arrow keys the others.
function focusOther(svg, step) {
  const plots = $$(".plot", svg.closest(".figures"));
  const next = plots[plots.indexOf(svg) + step];
  if (!next) return;
  for (const plot of $$(".plot", next.closest("figure"))) plot.setAttribute("tabindex", plot === next ? 0 : -1);
  next.focus();
}

function nearest({ chart, stops }, event, svg) {
  const box = svg.getBoundingClientRect();
  const scaling = svg.viewBox.baseVal.width / box.width;
  const [x, y] = [(event.clientX - box.left) * scaling, (event.clientY - box.top) * scaling];
  const far = (stop) => Math.hypot(stop.x - x, chart.equal ? stop.y - y : 0);
  return stops.reduce((best, stop) => (best === null || far(stop) < far(best) ? stop : best), null);
}

function highlight({ chart, focus, top, bottom }, stop) {
  focus.replaceChildren();
  if (!chart.equal) focus.append(shape("line", { x1: stop.x, x2: stop.x, y1: top, y2: bottom }));
  for (const point of stop.points) focus.append(drawMarker(seriesOf(point.curve), point, chart.equal ? 6 : 4.2));
}

// Return a formatter that gives all values the same number of decimals.
function alike(values) {
  const largest = Math.max(...values.map(Math.abs), 1e-4);
  const decimals = Math.max(0, 2 - Math.floor(Math.log10(largest)));
  const format = { minimumFractionDigits: decimals, maximumFractionDigits: decimals };
  return (value) => value.toLocaleString("en", format);
}

const withUnit = (text, unit) => (unit ? `${text} ${unit}` : text);
const named = (curve) => [sample(curve), element("bdi", {}, curve.name)];

function between(curve, low, high, i, write = number) {
  return curve[low]?.[i] == null ? "" : `${write(curve[low][i])} to ${write(curve[high][i])}`;
}

function tipRow(heading, value, interval) {
  const cells = [value, interval].map((text) => element("td", {}, text));
  return element("tr", {}, element("th", { scope: "row" }, heading), cells);
}

function pointText({ chart }, stop) {
  const { curve, i } = stop.points[0];
  const row = (axis, value, low, high) =>
    tipRow(axisText({ ...axis, unit: "" }), withUnit(number(value), axis.unit), between(curve, low, high, i));
  const rows = [row(chart.y, curve.y[i], "low", "high"), row(chart.x, curve.x[i], "x_low", "x_high")];
  const at = curve.at?.[i] ? [element("p", {}, curve.at[i])] : [];
  return [element("p", {}, named(curve)), ...at, element("table", {}, rows)];
}

function seriesText({ chart, stops, marks, x }, stop) {
  const { curve, i } = stop.points[0];
  const where = between(curve, "x_low", "x_high", i) || withUnit(number(curve.x[i]), chart.x.unit);
  const write = alike(stop.points.map(({ curve: own, i: k }) => own.y[k]));
  const rows = stop.points.map(({ curve: own, i: k }) =>
    tipRow(named(own), withUnit(write(own.y[k]), chart.y.unit), between(own, "low", "high", k, write)));
  const near = Math.max(6, (stops.at(-1).x - stops[0].x) / stops.length / 2);
  const close = marks.filter((mark) => Math.abs(x(mark.x) - stop.x) <= near);
  const shifts = close.map((mark) => element("p", {}, `${mark.ends ? "end of " : ""}${mark.name}: ${number(mark.x)}`));
  return [element("p", {}, `${chart.x.label} ${where}`), ...shifts, element("table", {}, rows)];
}

// Place the tooltip next to a point, or above or below the chart if it is wide.
function placeTip(svg, stop) {
  const box = svg.getBoundingClientRect();
  const scaling = box.width / svg.viewBox.baseVal.width;
  const [x, y] = [box.left + stop.x * scaling, box.top + stop.y * scaling];
  tip.hidden = box.bottom < 0 || box.top > innerHeight;
  const { width, height } = tip.getBoundingClientRect();
  const wide = width > 0.4 * innerWidth;
  const [upper, lower] = wide ? [box.top, box.bottom] : [y - 12, y + 16];
  const left = x + 14 + width > innerWidth - 4 ? x - 14 - width : x + 14;
  const top = upper - height < 4 ? Math.min(lower, innerHeight - height - 4) : upper - height;
  tip.style.left = `${Math.max(4, Math.min(left, innerWidth - width - 4))}px`;
  tip.style.top = `${Math.max(4, top)}px`;
}

function hideTip() {
  reading = null;
  tip.hidden = true;
}
