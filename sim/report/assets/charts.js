// @ts-check
// Charts as inline SVG, drawn for the available width; selections are preserved on redraw.

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
const LEGEND_WIDTH = 260;

const charts = { data: null, measure: null, attack: null, all: false, waiting: false, widths: new WeakMap() };

// Fill every [data-chart] of the page; may be called again with newer data.
function drawCharts(data) {
  charts.data = data;
  for (const host of $$("[data-chart]")) {
    if (!host.firstChild) prepare(host);
    drawHost(host);
  }
}

function prepare(host) {
  const legend = element("div", { class: "legend", role: "group", "aria-label": "Series to show" });
  host.append(element("div", { class: "choices" }), legend, element("div", { class: "figures" }));
  sizes.observe(host);
}

function drawHost(host, width = host.clientWidth) {
  if (!charts.data || !width) return;
  if (host.contains(reading?.svg)) hideTip();
  charts.widths.set(host, width);
  const shown = chartsOf(host);
  fillLegend($(".legend", host), shown);
  const focused = $$(".plot", host).indexOf(document.activeElement);
  const small = host.classList.contains("small");
  const beside = width > 900 && shown.length === 1 && isNarrow(shown[0], width - LEGEND_WIDTH);
  host.classList.toggle("beside", beside);
  const room = beside ? width - LEGEND_WIDTH : width;
  const left = Math.max(...shown.map((chart) => layOut(chart, room, small).left));
  const noted = shown.map((chart, i) => (chart.note === shown[i + 1]?.note ? { ...chart, note: "" } : chart));
  const figures = noted.map((chart) => drawFigure(chart, layOut(chart, room, small, left)));
  $(".figures", host).replaceChildren(...figures);
  if (focused >= 0) $$(".plot", host)[focused]?.focus({ preventScroll: true });
}

function redraw() {
  charts.waiting = false;
  for (const host of $$("[data-chart]")) drawHost(host);
}

// Redraw once after several series were toggled together.
function redrawSoon() {
  if (!charts.waiting) queueMicrotask(redraw);
  charts.waiting = true;
}

hidden.listen(redrawSoon);
const sizes = new ResizeObserver((entries) => {
  for (const { target } of entries) if (target.clientWidth !== charts.widths.get(target)) drawHost(target);
});
addEventListener("beforeprint", () => $$("[data-chart]").forEach((host) => drawHost(host, PRINT_WIDTH)));
addEventListener("afterprint", redraw);

// Return the charts of a host; for small multiples, those of the selected measure and attack.
function chartsOf(host) {
  const entries = [charts.data.charts[host.dataset.chart] ?? []].flat();
  if (entries[0]?.chart === undefined) return entries.filter((chart) => chart.panels.length);
  const measures = [...new Set(entries.map((choice) => choice.measure))];
  const measure = measures.includes(charts.measure) ? charts.measure : measures[0];
  const attacks = entries.filter((choice) => choice.measure === measure).map((choice) => choice.attack);
  const attack = attacks.includes(charts.attack) ? charts.attack : attacks[0];
  const { chart } = entries.find((choice) => choice.measure === measure && choice.attack === attack);
  fillChoices($(".choices", host), { measure: [measures, measure], attack: [attacks, attack] }, chart.panels.length);
  return [charts.all ? chart : { ...chart, panels: chart.panels.slice(0, MOST_USERS) }];
}

function fillChoices(box, choices, users) {
  const signature = JSON.stringify([choices, users, charts.all]);
  if (box.dataset.signature === signature) return;
  box.dataset.signature = signature;
  const focused = document.activeElement?.getAttribute("name");
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
  const text = charts.all ? `only the first ${MOST_USERS} panels` : `all ${users} panels`;
  const button = element("button", { type: "button", name: "all" }, text);
  button.addEventListener("click", () => {
    charts.all = !charts.all;
    redraw();
  });
  return button;
}

// Legend: a curve is hidden by its own name or by that of its series.

const seriesOf = (curve) => charts.data.series[curve.series];
const isOn = (curve) => !hidden.names.has(curve.name) && !hidden.names.has(seriesOf(curve).name);

function allCurves(shown) {
  const byName = new Map();
  for (const curve of shown.flatMap((chart) => chart.panels).flatMap((panel) => panel.curves)) {
    if (!byName.has(curve.name)) byName.set(curve.name, curve);
  }
  return [...byName.values()].sort((one, other) => one.series - other.series);
}

// Buttons are reused while the names are the same; otherwise a double click would not be recognized.
function fillLegend(box, shown) {
  const curves = allCurves(shown);
  const signature = JSON.stringify(curves.map((curve) => [curve.name, curve.line, curve.series, seriesOf(curve).look]));
  if (box.dataset.signature !== signature) {
    box.dataset.signature = signature;
    box.replaceChildren(...curves.map(legendButton), showAllButton());
  }
  curves.forEach((curve, i) => box.children[i].setAttribute("aria-pressed", String(isOn(curve))));
  box.lastChild.hidden = hidden.names.size === 0;
}

function legendButton(curve) {
  const words = "Click to show or hide. Double-click, or Shift with click or Enter, to show only this series.";
  const name = element("span", {}, curve.name);
  const button = element("button", { type: "button", title: words }, sample(curve), name);
  button.addEventListener("click", (event) => (event.altKey || event.shiftKey ? showOnly(curve) : toggle(curve)));
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
  const everything = Object.values(charts.data.charts).flat().map((entry) => entry?.chart ?? entry);
  const siblings = allCurves(everything.filter(Boolean)).filter((other) => other.series === curve.series);
  const names = siblings.map(({ name }) => name).filter((name) => name !== curve.name && name !== own);
  if (curve.name !== own) others.push(...names);
  const already = others.length === hidden.names.size && others.every((name) => hidden.names.has(name));
  hide(new Set(already ? [] : others));
}

function hide(names) {
  const changed = [...hidden.names, ...names].filter((name) => hidden.names.has(name) !== names.has(name));
  for (const name of new Set(changed)) hidden.toggle(name);
}

// Drawing.

function drawFigure(chart, layout) {
  const inner = layout.width + layout.right;
  const shares = Array.from({ length: layout.columns }, (_, i) => (i ? layout.inset : layout.left) + inner);
  const panels = element("div", { class: "panels" });
  panels.style.gridTemplateColumns = shares.map((share) => `minmax(0, ${share}fr)`).join(" ");
  panels.style.maxWidth = `${shares.reduce((sum, share) => sum + share, 0)}px`;
  chart.panels.forEach((panel, i) => panels.append(drawPanel(chart, panel, i, layout)));
  const title = chart.title ? [element("strong", {}, chart.title), " "] : [];
  const below = element("p", { class: "x-label" }, axisText(chart.x));
  below.style.maxWidth = panels.style.maxWidth;
  const note = chart.note ? element("p", { class: "note" }, chart.note) : null;
  return element("figure", {}, element("figcaption", {}, title, axisText(chart.y)), panels, below, note);
}

function axisText({ label, unit }) {
  const [before, ...after] = label.split("P_AE");
  const error = () => element("i", {}, "P", element("sub", {}, "AE"));
  const words = [before, ...after.flatMap((text) => [error(), text])];
  return element("span", {}, words, unit ? ` [${unit}]` : "");
}

function drawPanel(chart, panel, i, layout) {
  const place = placeOf(i, chart.panels.length, layout);
  const { left, top, bottom, x, y } = place;
  const curves = panel.curves.filter(isOn).map((curve) => placed(curve, x, y, chart.equal));
  const focus = shape("g", { class: "focus" });
  const svg = shape("svg", plotAttributes(chart, panel, i, place), drawAxes(layout, place));
  svg.append(...layout.marks.map((mark) => drawMark(mark, x, y, left)));
  if (chart.equal) svg.append(drawDiagonal(x, y));
  svg.append(drawCurves(chart, curves, layout, place), ...drawMarkers(chart, curves, layout.small), focus);
  readable(svg, { chart, stops: stopsOf(curves, chart.equal), marks: layout.marks, x, focus, top, bottom });
  if (!panel.title) return element("div", { class: "panel" }, svg);
  const title = element("p", { class: "panel-title", title: panel.title, dir: "auto" }, panel.title);
  title.style.marginLeft = `${left}px`;
  return element("div", { class: "panel" }, title, svg);
}

// Return the position of the plot in its SVG; outer panels have tick labels, large panels always below.
function placeOf(i, count, layout) {
  const ticksLeft = i % layout.columns === 0;
  const ticksBelow = !layout.small || i + layout.columns >= count;
  const left = ticksLeft ? layout.left : layout.inset;
  const top = 8 + ROW * layout.markRows;
  const [right, bottom] = [left + layout.width, top + layout.height];
  const [x, y] = [scale(...layout.x, left, right), scale(...layout.y, bottom, top)];
  const [width, height] = [right + layout.right, bottom + (ticksBelow ? 22 : 6)];
  return { left, right, top, bottom, width, height, x, y, ticksLeft, ticksBelow };
}

function plotAttributes(chart, panel, i, { width, height }) {
  const name = [panel.title, chart.y.label].filter(Boolean).join(", ");
  return {
    class: "plot",
    viewBox: `0 0 ${width} ${height}`,
    width,
    height,
    tabindex: i ? -1 : 0,
    role: "application",
    "aria-roledescription": "chart",
    "aria-label": `${name} by ${chart.x.label}. Left and right arrow keys read values, up and down select a chart.`,
  };
}

function drawAxes(layout, { left, right, top, bottom, x, y, ticksLeft, ticksBelow }) {
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

function drawMark(mark, x, y, left) {
  const [top, bottom] = [y(y.high), y(y.low)];
  const group = shape("g", { class: mark.ends ? "mark ends" : "mark" });
  const [from, to] = [x(Math.max(mark.low, x.low)), x(Math.min(mark.high, x.high))];
  if (to > from) group.append(shape("rect", { x: from, y: top, width: to - from, height: bottom - top }));
  const rise = mark.row === null ? 0 : 4 + ROW * mark.row;
  group.append(shape("line", { x1: x(mark.x), x2: x(mark.x), y1: top - rise, y2: bottom }));
  if (mark.row !== null) group.append(shape("text", { x: left + mark.start + 4, y: top - rise - 1 }, mark.text));
  return group;
}

// Return a curve with its points in pixels, sorted by x unless it is a time series.
function placed(curve, x, y, sorted) {
  const isKnown = (i) => curve.x[i] != null && curve.y?.[i] != null;
  const points = (curve.x ?? []).map((value, i) => ({ curve, i, x: x(value), y: y(curve.y?.[i]), known: isKnown(i) }));
  if (sorted) points.sort((one, other) => curve.x[one.i] - curve.x[other.i]);
  const end = (key, at) => points.map(({ i }) => (curve[key]?.[i] == null ? null : at(curve[key][i])));
  const each = (curve.each ?? []).map((own) =>
    own.x.map((value, i) => ({ x: x(value), y: y(own.y[i]), known: value != null && own.y[i] != null })));
  const ends = { low: end("low", y), high: end("high", y), xLow: end("x_low", x), xHigh: end("x_high", x) };
  return { curve, points, each, ...ends };
}

// Split a list of points at missing values.
function pieces(points) {
  const parts = [[]];
  for (const point of points) {
    if (point.known) parts.at(-1).push(point);
    else parts.push([]);
  }
  return parts.filter((piece) => piece.length);
}

// Draw bands, bars and lines, clipped to the plot.
function drawCurves(chart, curves, { width, height }, { left, top }) {
  const box = { x: left, y: top, width, height, viewBox: `${left} ${top} ${width} ${height}` };
  const many = curves.length > 4;
  const around = curves.flatMap((curve) => [...drawUncertainty(curve, chart.equal, many), ...drawSingleUsers(curve)]);
  return shape("svg", box, around, curves.map(drawLine));
}

const pathOf = (points) => points.map(({ x, y }, i) => `${i ? "L" : "M"}${x.toFixed(1)},${y.toFixed(1)}`).join("");

function drawLine({ curve, points }) {
  const d = pieces(points).map(pathOf).join("");
  return shape("path", { class: "line", d, stroke: colour(seriesOf(curve)), "stroke-dasharray": DASHES[curve.line] });
}

// Draw single users, if there are too few for an interval, as thin lines, or as dots for single points.
function drawSingleUsers({ curve, each }) {
  const ink = colour(seriesOf(curve));
  return each.flatMap((points) => {
    const dots = pieces(points).filter((piece) => piece.length === 1).flat();
    const line = shape("path", { class: "user", d: pieces(points).map(pathOf).join(""), stroke: ink });
    return [line, ...dots.map(({ x, y }) => shape("circle", { class: "user", cx: x, cy: y, r: 2.2, fill: ink }))];
  });
}

function drawUncertainty(placedCurve, equal, many) {
  const ink = colour(seriesOf(placedCurve.curve));
  const name = many ? "band faint" : "band";
  const bands = bandsOf(placedCurve).map((d) => shape("path", { class: name, d, fill: ink }));
  return equal ? [...bands, shape("path", { class: "bars", d: barsOf(placedCurve), stroke: ink })] : bands;
}

function bandsOf({ points, low, high }) {
  const ends = points.map(({ x, known }, i) => ({ x, known: known && low[i] !== null, low: low[i], high: high[i] }));
  const wide = pieces(ends).filter((piece) => piece.length > 1);
  return wide.map((piece) => {
    const above = piece.map(({ x, high: y }) => ({ x, y }));
    const below = piece.map(({ x, low: y }) => ({ x, y })).reverse();
    return `${pathOf([...above, ...below])}Z`;
  });
}

function barsOf({ points, low, high, xLow, xHigh }) {
  const bars = points.map(({ x, y, known }, i) => {
    const across = known && xLow[i] !== null ? `M${xLow[i]},${y}H${xHigh[i]}` : "";
    const upright = known && low[i] !== null ? `M${x},${low[i]}V${high[i]}` : "";
    return across + upright;
  });
  return bars.join("");
}

function drawMarker(series, { x, y }, size) {
  const at = `translate(${x.toFixed(1)},${y.toFixed(1)}) scale(${size})`;
  return shape("path", { class: "marker", d: MARKERS[series.look[1]], transform: at, fill: colour(series) });
}

// Draw a marker at every point of a trade-off and at some points of a time series, shifted between curves.
function drawMarkers({ equal }, curves, small) {
  return curves.flatMap(({ curve, points }, k) => {
    const every = equal ? 1 : Math.max(1, Math.floor(points.length / 5));
    const first = Math.floor((k / curves.length) * every);
    const lonely = new Set(pieces(points).filter((piece) => piece.length === 1).flat());
    const drawn = points.filter((point, i) => point.known && (lonely.has(point) || (!small && i % every === first)));
    return drawn.map((point) => drawMarker(seriesOf(curve), point, equal ? 4.2 : 3.3));
  });
}

function sample(curve) {
  const dashes = DASHES[curve.line];
  const ink = colour(seriesOf(curve));
  const stroke = shape("line", { class: "line", x1: 1, x2: 31, y1: 8, y2: 8, stroke: ink, "stroke-dasharray": dashes });
  const marker = drawMarker(seriesOf(curve), { x: 16, y: 8 }, 4.2);
  const box = { class: "sample", width: 32, height: 16, viewBox: "0 0 32 16", "aria-hidden": "true" };
  return shape("svg", box, stroke, marker);
}
