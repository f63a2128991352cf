// Charts as inline SVG, drawn for the width they have; what is shown, chosen and switched off outlives a redraw.

const MARKERS = [
  "M1,0A1,1 0 1 1 -1,0A1,1 0 1 1 1,0Z",
  "M-.9,-.9H.9V.9H-.9Z",
  "M0,-1.1L1.1,.9H-1.1Z",
  "M0,-1.3L1.1,0 0,1.3 -1.1,0Z",
  "M0,1.1L1.1,-.9H-1.1Z",
  "M-.4,-1.2H.4V-.4H1.2V.4H.4V1.2H-.4V.4H-1.2V-.4H-.4Z",
  "M0,-.5L.7,-1.2 1.2,-.7 .5,0 1.2,.7 .7,1.2 0,.5 -.7,1.2 -1.2,.7 -.5,0 -1.2,-.7 -.7,-1.2Z",
  "M-1.1,0L.9,-1.1V1.1Z",
  "M1.1,0L-.9,-1.1V1.1Z",
  "M0,-1.4L.33,-.45 1.33,-.43 .53,.17 .82,1.13 0,.56 -.82,1.13 -.53,.17 -1.33,-.43 -.33,-.45Z",
];
const DASHES = [null, "7 4", "1.5 3.5", "8 3.5 1.5 3.5"];
const MOST_USERS = 24;
const PRINT_WIDTH = 680;
const ROW = 15;
const FONT = 12;

const charts = { data: null, measure: null, attack: null, all: false, widths: new WeakMap() };

// Fill every [data-chart] of the page; may be called again with newer data.
function drawCharts(data) {
  charts.data = data;
  for (const host of $$("[data-chart]")) {
    if (!host.firstChild) prepare(host);
    drawHost(host);
  }
}

function prepare(host) {
  const parts = ["choices", "legend", "figures"].map((name) => element("div", { class: name }));
  host.append(...parts);
  $(".legend", host).setAttribute("role", "group");
  $(".legend", host).setAttribute("aria-label", "series to show");
  sizes.observe(host);
}

function drawHost(host, width = host.clientWidth) {
  if (!charts.data || !width) return;
  charts.widths.set(host, width);
  const shown = chartsOf(host);
  fillLegend($(".legend", host), shown);
  const figures = $(".figures", host);
  const focused = $$(".plot", host).indexOf(document.activeElement);
  const small = host.classList.contains("small");
  host.classList.toggle("beside", width > 900 && shown.length === 1 && isNarrow(shown[0], width));
  figures.replaceChildren(...shown.map((chart) => drawFigure(chart, figures.clientWidth || width, small)));
  if (focused >= 0) $$(".plot", host)[focused]?.focus({ preventScroll: true });
}

function redraw() {
  hideTip();
  for (const host of $$("[data-chart]")) drawHost(host);
}

hidden.listen(redraw);
const sizes = new ResizeObserver((entries) => {
  for (const { target } of entries) if (target.clientWidth !== charts.widths.get(target)) drawHost(target);
});
addEventListener("beforeprint", () => $$("[data-chart]").forEach((host) => drawHost(host, PRINT_WIDTH)));
addEventListener("afterprint", redraw);

// The charts of a host, one below the other; of small multiples those of the chosen measure and attack.
function chartsOf(host) {
  const found = [charts.data.charts[host.dataset.chart] ?? []].flat();
  if (!found.length || found[0].chart === undefined) return found;
  const measures = [...new Set(found.map((choice) => choice.measure))];
  const measure = measures.includes(charts.measure) ? charts.measure : measures[0];
  const attacks = found.filter((choice) => choice.measure === measure).map((choice) => choice.attack);
  const attack = attacks.includes(charts.attack) ? charts.attack : attacks[0];
  const { chart } = found.find((choice) => choice.measure === measure && choice.attack === attack);
  fillChoices($(".choices", host), { measure: [measures, measure], attack: [attacks, attack] }, chart.panels.length);
  return [charts.all ? chart : { ...chart, panels: chart.panels.slice(0, MOST_USERS) }];
}

function fillChoices(box, choices, users) {
  const said = JSON.stringify([choices, users, charts.all]);
  if (box.dataset.said === said) return;
  box.dataset.said = said;
  const focused = document.activeElement?.name;
  const selects = Object.entries(choices).map(([what, [options, value]]) => choiceOf(what, options, value));
  box.replaceChildren(...selects, ...(users > MOST_USERS ? [allButton(users)] : []));
  if (focused) $(`[name=${focused}]`, box)?.focus({ preventScroll: true });
}

function choiceOf(what, options, value) {
  const select = element("select", { name: what }, options.map((text) => element("option", { value: text }, text)));
  select.value = value;
  select.addEventListener("change", () => {
    charts[what] = select.value;
    redraw();
  });
  return element("label", { hidden: options.length < 2 }, `${what} `, select);
}

function allButton(users) {
  const text = charts.all ? `only the first ${MOST_USERS} users` : `all ${users} users`;
  const button = element("button", { type: "button", name: "all" }, text);
  button.addEventListener("click", () => {
    charts.all = !charts.all;
    redraw();
  });
  return button;
}

// The legend: what a curve is called, and whether it is switched on, by its own name and by its series'.

const seriesOf = (curve) => charts.data.series[curve.series];
const isOn = (curve) => !hidden.names.has(curve.name) && !hidden.names.has(seriesOf(curve).name);

function allCurves(shown) {
  const found = new Map();
  for (const curve of shown.flatMap((chart) => chart.panels).flatMap((panel) => panel.curves)) {
    if (!found.has(curve.name)) found.set(curve.name, curve);
  }
  return [...found.values()].sort((one, other) => one.series - other.series);
}

// Buttons stay the same elements while the names do, or a double click would not be one.
function fillLegend(box, shown) {
  const curves = allCurves(shown);
  const said = JSON.stringify(curves.map((curve) => [curve.name, curve.line, seriesOf(curve).look]));
  if (box.dataset.said !== said) {
    box.dataset.said = said;
    box.replaceChildren(...curves.map((curve) => legendButton(curve, shown)), showAllButton());
  }
  curves.forEach((curve, i) => box.children[i].setAttribute("aria-pressed", String(isOn(curve))));
  box.lastChild.hidden = hidden.names.size === 0;
}

function legendButton(curve) {
  const words = "Click: on or off. Double click or Alt and click: only this one.";
  const name = element("span", {}, curve.name);
  const button = element("button", { type: "button", title: words }, sample(curve), name);
  button.addEventListener("click", (event) => (event.altKey ? showOnly(curve) : toggle(curve)));
  button.addEventListener("dblclick", () => showOnly(curve));
  return button;
}

function showAllButton() {
  const button = element("button", { type: "button", class: "all" }, "show all");
  button.addEventListener("click", () => hide(new Set()));
  return button;
}

function toggle(curve) {
  const { name } = seriesOf(curve);
  hidden.toggle(hidden.names.has(name) ? name : curve.name);
}

function showOnly(curve) {
  const own = seriesOf(curve).name;
  const others = charts.data.series.map((series) => series.name).filter((name) => name !== own);
  const everything = Object.values(charts.data.charts).flat().map((found) => found?.chart ?? found);
  const siblings = allCurves(everything.filter(Boolean)).filter((other) => other.series === curve.series);
  if (curve.name !== own) others.push(...siblings.map(({ name }) => name).filter((name) => ![curve.name, own].includes(name)));
  const already = others.length === hidden.names.size && others.every((name) => hidden.names.has(name));
  hide(new Set(already ? [] : others));
}

function hide(names) {
  const changed = [...hidden.names, ...names].filter((name) => hidden.names.has(name) !== names.has(name));
  for (const name of new Set(changed)) hidden.toggle(name);
}

// Scales: from numbers to pixels, with ticks at round numbers.

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
    const value = (first + i) * step;
    return { value, text: value.toLocaleString("en", format).replace(/^-(?=0(\.0*)?$)/, "") };
  });
}

// The range of the values; of wide intervals of a few users only so much that the values stay readable.
function range(values, ends) {
  const known = values.filter((value) => value !== null);
  if (!known.length) return [0, 1];
  let [low, high] = [Math.min(...known), Math.max(...known)];
  const room = Math.max(high - low, 0.3 * Math.abs(high), 1e-9);
  for (const end of ends.filter((value) => value !== null)) {
    low = Math.min(low, Math.max(end, Math.min(...known) - 0.5 * room));
    high = Math.max(high, Math.min(end, Math.max(...known) + 0.5 * room));
  }
  const pad = 0.05 * (high - low || Math.abs(high) || 1);
  return [low >= 0 && low < 0.4 * high ? 0 : low - pad, high + pad];
}

function ranges(chart) {
  const all = chart.panels.flatMap((panel) => panel.curves);
  const curves = all.some(isOn) ? all.filter(isOn) : all;
  const of = (...keys) => keys.flatMap((key) => curves.flatMap((curve) => curve[key] ?? []));
  const x = chart.equal ? range(of("x"), of("x_low", "x_high")) : span(of("x", "x_low", "x_high"));
  return { x, y: range(of("y"), of("low", "high")) };
}

function span(values) {
  const known = values.filter((value) => value !== null);
  if (!known.length) return [0, 1];
  const [low, high] = [Math.min(...known), Math.max(...known)];
  return [low >= 0 && low < 0.1 * high ? 0 : low, high > low ? high : low + 1];
}

const ruler = document.createElement("canvas").getContext("2d");

function textWidth(text, size = FONT) {
  ruler.font = `${size}px ${getComputedStyle(document.body).fontFamily}`;
  return ruler.measureText(text).width;
}

function shortened(text, most) {
  const letters = [...text];
  return letters.length > most ? `${letters.slice(0, most - 1).join("")}…` : text;
}

// Where everything of a figure is: columns of panels, the size of each plot, scales and ticks.

function columnsFor(count, width, least) {
  const most = Math.max(1, Math.floor(width / least));
  return Math.ceil(count / Math.ceil(count / most));
}

function layOut(chart, width, small) {
  const { x, y } = ranges(chart);
  const columns = small
    ? Math.max(1, Math.floor(width / (width < 600 ? 150 : 190)))
    : columnsFor(chart.panels.length, width, chart.equal ? 340 : 320);
  const right = small ? 12 : 18;
  let left = 40;
  let found = null;
  for (let pass = 0; pass < 2; pass++) {
    const room = Math.max(60, (width - left - columns * right) / columns);
    found = chart.equal ? equalPlot(x, y, room, columns > 1) : freePlot(chart, x, y, room, small);
    left = Math.ceil(Math.max(...found.yTicks.map(({ text }) => textWidth(text)), 8)) + 10;
  }
  return { ...found, columns, left, right, small, ...placeMarks(chart.marks, found, small) };
}

function freePlot(chart, x, y, width, small) {
  const height = small ? 84 : Math.round(Math.min(250, Math.max(170, 0.42 * width)));
  const widest = textWidth(number(x[1])) + (small ? 16 : 36);
  const xStep = roundStep(x[1] - x[0], Math.floor(width / widest), chart.x.whole);
  const yStep = roundStep(y[1] - y[0], height / (small ? 26 : 38), chart.y.whole);
  return { width, height, x, y, xTicks: ticks(...x, xStep), yTicks: ticks(...y, yStep) };
}

// Both axes in one scale from one beginning; a plot too flat or too narrow gets more of an axis.
function equalPlot([xLow, xHigh], [yLow, yHigh], room, several) {
  const low = Math.min(xLow, yLow);
  const perUnit = Math.min(room / (xHigh - low), (several ? 400 : 460) / (yHigh - low));
  const width = Math.min(room, Math.max((xHigh - low) * perUnit, 250));
  const height = Math.max((yHigh - low) * perUnit, Math.min(200, room));
  const [x, y] = [[low, low + width / perUnit], [low, low + height / perUnit]];
  const widest = textWidth(number(x[1])) + 36;
  const step = roundStep(x[1] - low, Math.floor(width / widest), false);
  return { width, height, x, y, xTicks: ticks(...x, step), yTicks: ticks(...y, step) };
}

function isNarrow(chart, width) {
  return chart.equal && chart.panels.length === 1 && layOut(chart, width, false).width < width - 300;
}

// Give the names of shifts rows above the plot so that none covers another.
function placeMarks(marks, { x, width }, small) {
  const at = scale(...x, 0, width);
  const ends = [];
  const within = marks.filter((mark) => mark.x >= x[0] && mark.x <= x[1]).sort((one, other) => one.x - other.x);
  const placed = within.map((mark) => {
    if (small || mark.ends) return { ...mark, row: null };
    const text = shortened(mark.name, 24);
    const length = textWidth(text) + 12;
    const start = Math.max(0, Math.min(at(mark.x), width - length + 16));
    const free = ends.findIndex((end) => end <= start);
    const row = free < 0 ? ends.length : free;
    ends[row] = start + length;
    return { ...mark, text, start, row };
  });
  return { marks: placed, markRows: ends.length };
}

// Drawing.

function drawFigure(chart, width, small) {
  const layout = layOut(chart, width, small);
  const shares = Array.from({ length: layout.columns }, (_, i) => (i ? 0 : layout.left) + layout.width + layout.right);
  const panels = element("div", { class: "panels" });
  panels.style.gridTemplateColumns = shares.map((share) => `minmax(0, ${share}fr)`).join(" ");
  panels.style.maxWidth = `${shares.reduce((sum, share) => sum + share, 0)}px`;
  chart.panels.forEach((panel, i) => panels.append(drawPanel(chart, panel, i, layout)));
  const title = chart.title ? [element("strong", {}, chart.title), " "] : [];
  const below = element("p", { class: "x-label" }, axisWords(chart.x));
  below.style.maxWidth = panels.style.maxWidth;
  const note = chart.note ? element("p", { class: "note" }, chart.note) : null;
  return element("figure", {}, element("figcaption", {}, title, axisWords(chart.y)), panels, below, note);
}

function axisWords({ label, unit }) {
  const [before, ...after] = label.split("P_AE");
  const error = () => element("i", {}, "P", element("sub", {}, "AE"));
  const words = [before, ...after.flatMap((text) => [error(), text])];
  return element("span", {}, words, unit ? ` [${unit}]` : "");
}

function drawPanel(chart, panel, i, layout) {
  const first = i % layout.columns === 0;
  const last = i + layout.columns >= chart.panels.length;
  const left = first ? layout.left : 0;
  const top = 8 + ROW * layout.markRows;
  const [width, height] = [left + layout.width + layout.right, top + layout.height + 22];
  const name = [panel.title, chart.y.label].filter(Boolean).join(", ");
  const svg = shape("svg", {
    class: "plot",
    viewBox: `0 0 ${width} ${height}`,
    width,
    height,
    role: "application",
    tabindex: i ? -1 : 0,
    "aria-roledescription": "chart",
    "aria-label": `${name} by ${chart.x.label}; left and right arrow: read values, up and down: other charts`,
  });
  const x = scale(...layout.x, left, left + layout.width);
  const y = scale(...layout.y, top + layout.height, top);
  const curves = panel.curves.filter(isOn).map((curve) => placed(curve, x, y, chart.equal));
  const within = shape("svg", { x: left, y: top, width: layout.width, height: layout.height, viewBox: `${left} ${top} ${layout.width} ${layout.height}` });
  within.append(...curves.flatMap((curve) => uncertainty(curve, chart.equal)), ...curves.map(line));
  const focus = shape("g", { class: "focus" });
  const axes = drawAxes(layout, x, y, { left, top, ticksLeft: first, ticksBelow: last || !layout.small });
  svg.append(axes, ...layout.marks.map((mark) => drawMark(mark, x, y, left, layout)));
  if (chart.equal) svg.append(drawDiagonal(x, y));
  svg.append(within, ...curves.flatMap((curve, k) => markersOf(curve, chart.equal, k, layout.small)), focus);
  readable(svg, { chart, curves, focus, stops: stopsOf(curves, chart.equal), top, bottom: top + layout.height });
  const title = panel.title ? element("p", { class: "panel-title", title: panel.title, dir: "auto" }, panel.title) : null;
  if (title) title.style.marginLeft = `${left}px`;
  return element("div", { class: "panel" }, title, svg);
}

function drawAxes(layout, x, y, { left, top, ticksLeft, ticksBelow }) {
  const [right, bottom] = [left + layout.width, top + layout.height];
  const axes = shape("g", { class: "axes" });
  for (const { value, text } of layout.yTicks) {
    axes.append(shape("line", { x1: left, x2: right, y1: y(value), y2: y(value) }));
    if (ticksLeft) axes.append(shape("text", { x: left - 7, y: y(value), dy: "0.34em", "text-anchor": "end" }, text));
  }
  for (const { value, text } of layout.xTicks) {
    axes.append(shape("line", { x1: x(value), x2: x(value), y1: top, y2: bottom }));
    if (ticksBelow) axes.append(shape("text", { x: x(value), y: bottom + 16, "text-anchor": "middle" }, text));
  }
  axes.append(shape("path", { class: "base", d: `M${left},${top}V${bottom}H${right}` }));
  return axes;
}

function drawDiagonal(x, y) {
  const end = Math.min(x.high, y.high);
  const [right, above] = [x(end), y(end)];
  const line = shape("line", { x1: x(x.low), y1: y(y.low), x2: right, y2: above });
  const turn = `translate(${right - 14},${above + 14}) rotate(-45)`;
  const words = shape("text", { transform: turn, dy: -6, "text-anchor": "end" }, "P");
  words.append(shape("tspan", { "font-size": 9, dy: 2 }, "AE"), shape("tspan", { dy: -2 }, " = Q̄"));
  return shape("g", { class: "diagonal" }, line, words);
}

function drawMark(mark, x, y, left, layout) {
  const [top, bottom] = [y(y.high), y(y.low)];
  const group = shape("g", { class: mark.ends ? "mark ends" : "mark" });
  const [from, to] = [x(Math.max(mark.low, x.low)), x(Math.min(mark.high, x.high))];
  if (to > from) group.append(shape("rect", { x: from, y: top, width: to - from, height: bottom - top }));
  const rise = mark.row === null ? 0 : 4 + ROW * mark.row;
  group.append(shape("line", { x1: x(mark.x), x2: x(mark.x), y1: top - rise, y2: bottom }));
  if (mark.row !== null) group.append(shape("text", { x: left + mark.start + 4, y: top - rise - 1 }, mark.text));
  return group;
}

// The curve with its points in pixels, in order of x where that is no course over time.
function placed(curve, x, y, sorted) {
  const points = curve.x.map((value, i) => ({ curve, i, x: x(value), y: y(curve.y[i]), known: value !== null && curve.y[i] !== null }));
  if (sorted) points.sort((one, other) => curve.x[one.i] - curve.x[other.i]);
  const end = (key, at) => points.map(({ i }) => (curve[key]?.[i] == null ? null : at(curve[key][i])));
  return { curve, points, low: end("low", y), high: end("high", y), xLow: end("x_low", x), xHigh: end("x_high", x) };
}

// Cut a list of points where one is unknown.
function pieces(points) {
  const found = [[]];
  for (const point of points) {
    if (point.known) found.at(-1).push(point);
    else found.push([]);
  }
  return found.filter((piece) => piece.length);
}

const path = (points) => points.map(({ x, y }, i) => `${i ? "L" : "M"}${x.toFixed(1)},${y.toFixed(1)}`).join("");

function line({ curve, points }) {
  const d = pieces(points).map(path).join("");
  return shape("path", { class: "line", d, stroke: colour(seriesOf(curve)), "stroke-dasharray": DASHES[curve.line] });
}

function uncertainty({ curve, points, low, high, xLow, xHigh }, equal) {
  const ink = colour(seriesOf(curve));
  const known = points.map((point, i) => ({ ...point, known: point.known && low[i] !== null, low: low[i], high: high[i] }));
  const bands = pieces(known).filter((piece) => piece.length > 1).map((piece) => {
    const back = piece.map(({ x, low: y }) => ({ x, y })).reverse();
    const d = `${path([...piece.map(({ x, high: y }) => ({ x, y })), ...back])}Z`;
    return shape("path", { class: "band", d, fill: ink });
  });
  if (!equal) return bands;
  const bars = points.map((point, i) => {
    if (!point.known) return "";
    const across = xLow[i] === null ? "" : `M${xLow[i]},${point.y}H${xHigh[i]}`;
    return across + (low[i] === null ? "" : `M${point.x},${low[i]}V${high[i]}`);
  });
  return [...bands, shape("path", { class: "bars", d: bars.join(""), stroke: ink })];
}

function drawMarker(series, { x, y }, size) {
  const at = `translate(${x.toFixed(1)},${y.toFixed(1)}) scale(${size})`;
  return shape("path", { class: "marker", d: MARKERS[series.look[1]], transform: at, fill: colour(series) });
}

// Every point of a trade-off has its marker, of a course over time some, at other places for each curve.
function markersOf({ curve, points }, equal, number, small) {
  const every = equal ? 1 : Math.max(1, Math.floor(points.length / 5));
  const first = equal ? 0 : number % every;
  const lonely = new Set(pieces(points).filter((piece) => piece.length === 1).flat());
  const drawn = points.filter((point, i) => point.known && (lonely.has(point) || (!small && i % every === first)));
  return drawn.map((point) => drawMarker(seriesOf(curve), point, equal ? 4.2 : 3.3));
}

function sample(curve) {
  const dashes = DASHES[curve.line];
  const ink = colour(seriesOf(curve));
  const stroke = shape("line", { class: "line", x1: 1, x2: 31, y1: 8, y2: 8, stroke: ink, "stroke-dasharray": dashes });
  const marker = drawMarker(seriesOf(curve), { x: 16, y: 8 }, 4.2);
  return shape("svg", { class: "sample", width: 32, height: 16, viewBox: "0 0 32 16", "aria-hidden": "true" }, stroke, marker);
}

// Reading: the point nearest to the pointer, or the one the arrow keys have reached.

// Points that are read together: each of a trade-off, all at one place of a course over time.
function stopsOf(curves, equal) {
  const points = curves.flatMap((curve) => curve.points).filter((point) => point.known);
  points.sort((one, other) => one.x - other.x);
  if (equal) return points.map((point) => ({ ...point, points: [point] }));
  const stops = [];
  for (const point of points) {
    if (stops.length && point.x - stops.at(-1).x < 0.5) stops.at(-1).points.push(point);
    else stops.push({ x: point.x, y: point.y, points: [point] });
  }
  for (const stop of stops) stop.points.sort((one, other) => other.curve.y[other.i] - one.curve.y[one.i]);
  return stops;
}

function readable(svg, plot) {
  let at = -1;
  const show = (stop, keyboard) => {
    if (!stop) return;
    at = plot.stops.indexOf(stop);
    highlight(plot, stop);
    const scaling = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
    const box = svg.getBoundingClientRect();
    showTip(tipContent(plot, stop), box.left + stop.x * scaling, box.top + stop.y * scaling, keyboard);
  };
  const leave = () => {
    plot.focus.replaceChildren();
    hideTip();
  };
  const point = (event) => show(nearest(plot, event, svg), false);
  svg.addEventListener("pointermove", point);
  svg.addEventListener("pointerdown", point);
  svg.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && leave());
  svg.addEventListener("focus", () => svg.matches(":focus-visible") && show(plot.stops[Math.max(at, 0)], true));
  svg.addEventListener("blur", leave);
  svg.addEventListener("keydown", (event) => {
    const last = plot.stops.length - 1;
    const goals = { ArrowLeft: Math.max(at - 1, 0), ArrowRight: Math.min(at + 1, last), Home: 0, End: last };
    if (event.key in goals) show(plot.stops[goals[event.key]], true);
    else if (event.key === "ArrowUp" || event.key === "ArrowDown") neighbour(svg, event.key === "ArrowUp" ? -1 : 1);
    else if (event.key === "Escape") leave();
    else return;
    event.preventDefault();
  });
}

// Of the panels of a figure the tab key reaches one, the arrow keys the others.
function neighbour(svg, step) {
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

const withUnit = (text, unit) => (unit ? `${text} ${unit}` : text);

function interval(curve, low, high, i) {
  return curve[low]?.[i] == null ? "" : `${number(curve[low][i])} to ${number(curve[high][i])}`;
}

function tipRow(heading, value, between) {
  return element("tr", {}, element("th", { scope: "row" }, heading), element("td", {}, value), element("td", {}, between));
}

function tipContent(plot, stop) {
  const { chart } = plot;
  const { curve, i } = stop.points[0];
  if (chart.equal) {
    return [
      element("p", {}, sample(curve), element("bdi", {}, curve.name)),
      curve.at?.[i] ? element("p", {}, curve.at[i]) : null,
      element("table", {}, [["y", "low", "high"], ["x", "x_low", "x_high"]].map(([key, low, high]) =>
        tipRow(axisName(chart[key]), withUnit(number(curve[key][i]), chart[key].unit), interval(curve, low, high, i)))),
    ];
  }
  const where = interval(curve, "x_low", "x_high", i) || withUnit(number(curve.x[i]), chart.x.unit);
  const rows = stop.points.map(({ curve: own, i: k }) => tipRow(
    [sample(own), element("bdi", {}, own.name)], withUnit(number(own.y[k]), chart.y.unit), interval(own, "low", "high", k)));
  const at = curve.at?.[i] ? [element("p", {}, curve.at[i])] : [];
  return [element("p", {}, `${chart.x.label} ${where}`), ...at, element("table", {}, rows)];
}

const axisName = (axis) => axisWords({ label: axis.label, unit: "" });

const tip = element("div", { class: "tip", role: "status", hidden: true });
document.body.append(tip);
addEventListener("scroll", () => hideTip(), { passive: true });

function showTip(content, x, y, keyboard) {
  tip.replaceChildren(...content.filter(Boolean));
  tip.hidden = false;
  tip.setAttribute("aria-live", keyboard ? "polite" : "off");
  const { width, height } = tip.getBoundingClientRect();
  const left = x + 14 + width > innerWidth ? x - 14 - width : x + 14;
  tip.style.left = `${Math.max(4, Math.min(left, innerWidth - width - 4))}px`;
  tip.style.top = `${Math.max(4, y - height - 12 < 4 ? y + 16 : y - height - 12)}px`;
}

function hideTip() {
  tip.hidden = true;
}
