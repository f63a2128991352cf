// @ts-check
// Map of the replay on a canvas. All marks of one kind are one path, which is fast enough for two hundred users.

const HEAT_COLOUR = "--series-3";
const GUESS_COLOURS = ["--series-1", "--series-2", "--series-4", "--series-5", "--series-3"];
const GUESS_SHAPES = ["cross", "triangle", "diamond", "plus", "hourglass"];

// Return the marks of a user under an LPPM: the true position, the report, and an estimate per attack.
function marksOf(track, lppm) {
  const guesses = lppm.estimates.map(({ attack, values, steps }) => {
    const kind = track.attacks.indexOf(attack);
    const look = { colour: GUESS_COLOURS[(kind + Math.floor(kind / 5)) % 5], shape: GUESS_SHAPES[kind % 5] };
    return { key: `guess ${attack}`, title: `Estimate of ${attack}`, short: attack, values, steps, attack, ...look };
  });
  return [
    { key: "truth", title: "True position", short: "true", values: track.cell, colour: "--ink", shape: "disc" },
    { key: "report", title: "Reported position", short: "reported", values: lppm.output, steps: lppm.steps, space: lppm.space, named: lppm.named, colour: "--series-0", shape: "square" },
    ...guesses,
  ];
}

// Add the outline of a mark to the current path.
function outlineMark(context, shape, x, y, size) {
  const lines = (...points) => points.forEach(([right, down], place) => {
    if (place === 0) context.moveTo(x + right * size, y + down * size);
    else context.lineTo(x + right * size, y + down * size);
  });
  if (shape === "disc") {
    context.moveTo(x + 0.8 * size, y);
    context.arc(x, y, 0.8 * size, 0, 2 * Math.PI);
  } else if (shape === "square") {
    context.rect(x - 1.15 * size, y - 1.15 * size, 2.3 * size, 2.3 * size);
  } else if (shape === "cross") {
    lines([-1.45, -1.45], [1.45, 1.45]);
    lines([1.45, -1.45], [-1.45, 1.45]);
  } else if (shape === "plus") {
    lines([-1.7, 0], [1.7, 0]);
    lines([0, -1.7], [0, 1.7]);
  } else if (shape === "triangle") {
    lines([0, -2], [1.9, 1.3], [-1.9, 1.3], [0, -2], [1.9, 1.3]);
  } else if (shape === "diamond") {
    lines([0, -2], [2, 0], [0, 2], [-2, 0], [0, -2], [2, 0]);
  } else {
    lines([-1, -1.3], [1, -1.3], [-1, 1.3], [1, 1.3], [-1, -1.3], [1, -1.3]);
  }
}

// Paint the outlined marks. Only discs are filled, so that marks at the same position remain distinguishable.
function paintMarks(context, shape, colour, width) {
  context.strokeStyle = context.fillStyle = colour;
  context.lineWidth = width;
  if (shape === "disc") context.fill();
  else context.stroke();
}

// ---- the map

const MAP_EDGE = 10;
const MAP_FOOT = 30;
const TRAIL = 10;
const GLIDE_S = 0.3;

// Return the layout of the map on a canvas of this size, in CSS pixels. `zoom` magnifies the section around the mean
// position of a user, or around the middle of the map without a user.
function layOutMap(track, width, height, zoom, user) {
  const fitted = Math.min((width - 2 * MAP_EDGE) / track.width, (height - MAP_EDGE - MAP_FOOT) / track.height);
  const scale = fitted * zoom;
  const frame = { x: (width - fitted * track.width) / 2, y: MAP_EDGE, width: fitted * track.width, height: fitted * track.height };
  const [east, south] = centreOf(track, user);
  const shifted = (start, room, share) => start - Math.min(Math.max(share * room * zoom - room / 2, 0), room * (zoom - 1));
  const left = shifted(frame.x, frame.width, east);
  const top = shifted(frame.y, frame.height, south);
  const { stepX, stepY, x: eastKm, y: southKm } = track.places;
  const [right, down] = [scale * stepX, scale * stepY];
  const x = Float32Array.from(eastKm, (km) => left + scale * km);
  const y = Float32Array.from(southKm, (km) => top + scale * km);
  // Users have distinct positions within a cell, on a sunflower spiral.
  const count = track.users.length;
  const reach = 0.38 * Math.min(right, down);
  const far = (user) => reach * Math.sqrt(user / count);
  const offset = (turn) => Float32Array.from({ length: count }, (_, user) => far(user) * turn(user * 2.39996));
  const places = Array.from({ length: 2 + track.attacks.length }, () => [new Float32Array(count), new Float32Array(count)]);
  return { width, height, frame, scale, left, top, right, down, x, y, offsetX: offset(Math.cos), offsetY: offset(Math.sin), places };
}

// Return the mean true position of a user as shares of the map from the west and the north; its middle without a user.
function centreOf(track, user) {
  if (user === null) return [0.5, 0.5];
  const own = track.cell.subarray(track.start[user], track.start[user + 1]);
  const mean = (km) => own.reduce((sum, cell) => sum + km[cell], 0) / own.length;
  return [mean(track.places.x) / track.width, mean(track.places.y) / track.height];
}

// Restrict drawing to the frame of the map.
function clipToFrame(context, { frame }) {
  context.beginPath();
  context.rect(frame.x, frame.y, frame.width, frame.height);
  context.clip();
}

// Draw the static layers: frame, cells, tiles or locations, roads, scale bar, north arrow.
function drawGround(context, track, plan, colours, layers) {
  const { width, height, frame } = plan;
  context.clearRect(0, 0, width, height);
  context.lineWidth = 1;
  context.strokeStyle = colours["--rule"];
  context.strokeRect(frame.x, frame.y, frame.width, frame.height);
  context.save();
  clipToFrame(context, plan);
  if (layers.cells && track.places.grid) drawLines(context, track, plan);
  if (layers.roads && track.roads) drawRoads(context, track, plan, colours);
  if (layers.cells && !track.places.grid) drawPlaces(context, track, plan, colours);
  context.restore();
  drawScale(context, track, plan, colours);
}

// Draw the lines between the cells of a grid, or between its tiles.
function drawLines(context, track, plan) {
  const { scale, left, top, right, down } = plan;
  const { rows, cols } = track.world;
  const step = tileSize(track, plan);
  if (step * Math.min(right, down) < 3) return;
  const north = top + scale * track.height;
  context.beginPath();
  for (let col = step; col < cols; col += step) {
    context.moveTo(left + col * right, top);
    context.lineTo(left + col * right, north);
  }
  for (let row = step; row < rows; row += step) {
    context.moveTo(left, north - row * down);
    context.lineTo(left + scale * track.width, north - row * down);
  }
  context.stroke();
}

// Return the number of cells between two lines: one, or the size of a tile if cells are too small.
function tileSize(track, { right, down }) {
  return Math.min(right, down) >= 6 ? 1 : track.world.tiles.size;
}

function drawRoads(context, { roads, height }, { scale, left, top }, colours) {
  context.beginPath();
  for (let road = 0; road < roads.from.length; road++) {
    const [from, to] = [roads.from[road], roads.to[road]];
    context.moveTo(left + (scale * roads.x[from]) / 1000, top + scale * (height - roads.y[from] / 1000));
    context.lineTo(left + (scale * roads.x[to]) / 1000, top + scale * (height - roads.y[to] / 1000));
  }
  context.globalAlpha = 0.35;
  context.strokeStyle = colours["--soft"];
  context.lineWidth = 1.2;
  context.stroke();
  context.globalAlpha = 1;
}

function drawScale(context, track, { scale, frame, height }, colours) {
  const left = frame.x;
  const km = [100, 50, 20, 10, 5, 2, 1, 0.5, 0.2, 0.1, 0.05].find((length) => length <= frame.width / scale / 2.5) ?? 0.01;
  const y = height - 9;
  context.strokeStyle = context.fillStyle = colours["--ink"];
  context.lineWidth = 1.5;
  context.beginPath();
  context.moveTo(left + 1, y - 6);
  context.lineTo(left + 1, y);
  context.lineTo(left + 1 + km * scale, y);
  context.lineTo(left + 1 + km * scale, y - 6);
  context.stroke();
  context.font = colours.font;
  context.textAlign = "left";
  context.fillText(`${number(km)} km`, left + km * scale + 8, y + 1);
  const east = left + frame.width;
  context.textAlign = "right";
  context.fillText("N", east - 10, y + 1);
  context.beginPath();
  context.moveTo(east - 4, y);
  context.lineTo(east - 4, y - 11);
  context.moveTo(east - 7, y - 7);
  context.lineTo(east - 4, y - 11);
  context.lineTo(east - 1, y - 7);
  context.stroke();
}

// Write the users' positions for the cells in `values` into two arrays; NaN for missing cells.
function placeUsers(track, plan, values, users, glide, [toX, toY]) {
  for (const user of users) {
    const query = track.at[user];
    const cell = query < track.start[user] ? track.cells : values[query];
    let x = plan.x[cell] ?? NaN;
    let y = plan.y[cell] ?? NaN;
    if (glide[user] > 0 && values[query + 1] < track.cells) {
      x += glide[user] * (plan.x[values[query + 1]] - x);
      y += glide[user] * (plan.y[values[query + 1]] - y);
    }
    toX[user] = x + plan.offsetX[user];
    toY[user] = y + plan.offsetY[user];
  }
}

// Shade the cells that a user's report covers, if there are several.
function shadeReport(context, { track, plan, marks, layers, colours }, user) {
  const report = marks.find(({ key }) => key === "report");
  if (!report.named || !layers.report || track.at[user] < track.start[user]) return;
  context.fillStyle = context.strokeStyle = colours[report.colour];
  context.lineWidth = 6;
  context.globalAlpha = track.places.grid ? 0.16 : 0.3;
  for (const cell of report.named(track.at[user])) shadePlace(context, track, plan, cell);
  context.globalAlpha = 1;
}

// Return the progress of each user towards the next position: zero until shortly before the query.
function glideUsers(track, axis, moment, speed, users) {
  const glide = new Float32Array(track.users.length);
  if (!speed) return glide;
  for (const user of users) {
    const query = track.at[user];
    if (query < track.start[user] || query + 1 >= track.start[user + 1]) continue;
    const next = momentOf(track, axis, user, query + 1);
    const span = Math.min(GLIDE_S * speed, (next - momentOf(track, axis, user, query)) / 2);
    const part = 1 - (next - moment) / span;
    if (part > 0) glide[user] = part * part * (3 - 2 * part);
  }
  return glide;
}

// Draw the last positions, older ones fainter: one path per age.
function drawTrails(context, track, plan, mark, users, [headX, headY], strength) {
  const { values } = mark;
  const { at, start, cells } = track;
  for (let age = 0; age < TRAIL; age++) {
    context.globalAlpha = strength * (1 - age / TRAIL);
    context.beginPath();
    for (const user of users) {
      const query = at[user] - age;
      if (query < start[user]) continue;
      const cell = values[query];
      const newer = age ? values[query + 1] : cells;
      if (cell >= cells || (age && (newer >= cells || newer === cell))) continue;
      const [right, down] = [plan.offsetX[user], plan.offsetY[user]];
      context.moveTo(plan.x[cell] + right, plan.y[cell] + down);
      if (age) context.lineTo(plan.x[newer] + right, plan.y[newer] + down);
      else context.lineTo(headX[user], headY[user]);
    }
    context.stroke();
  }
  context.globalAlpha = 1;
}

// Draw the users' marks, trails and error lines, or only their true positions (`plain`); one path per layer.
function drawUsers(context, scene, users, { plain = false, size, halo = false }) {
  const { track, plan, marks, layers, colours, glide } = scene;
  const seen = marks.filter(({ key }) => layers[key] && (key === "truth" || !plain));
  marks.forEach((mark, place) => placeUsers(track, plan, mark.values, users, glide, plan.places[place]));
  const places = (mark) => plan.places[marks.indexOf(mark)];
  const width = halo ? 2 : 1.4;
  if (layers.trails && !plain) {
    for (const mark of seen.filter(({ key }) => key === "truth" || (key === "report" && halo))) {
      context.strokeStyle = colours[mark.colour];
      context.lineWidth = halo ? 2 : 1;
      drawTrails(context, track, plan, mark, users, places(mark), halo ? 0.6 : 0.3);
    }
  }
  if (layers.errors && !plain) {
    const [fromX, fromY] = plan.places[0];
    for (const mark of seen.filter(({ attack }) => attack !== undefined)) {
      const [toX, toY] = places(mark);
      context.beginPath();
      for (const user of users) {
        if (Number.isNaN(toX[user]) || (toX[user] === fromX[user] && toY[user] === fromY[user])) continue;
        context.moveTo(fromX[user], fromY[user]);
        context.lineTo(toX[user], toY[user]);
      }
      context.strokeStyle = colours[mark.colour];
      context.lineWidth = halo ? 1.8 : 0.8;
      context.stroke();
    }
  }
  const outline = ({ shape }, [x, y]) => {
    context.beginPath();
    for (const user of users) if (!Number.isNaN(x[user])) outlineMark(context, shape, x[user], y[user], size);
  };
  for (const mark of halo ? seen : []) {
    outline(mark, places(mark));
    paintMarks(context, "halo", colours["--paper"], width + 3);
  }
  for (const mark of [...seen].reverse()) {
    outline(mark, places(mark));
    paintMarks(context, mark.shape, colours[mark.colour], width);
  }
}

// Label the marks of the followed user; marks at the same position share a label.
function nameMarks(context, { track, plan, marks, layers, colours }, user, size) {
  const spots = new Map();
  marks.forEach((mark, place) => {
    const [x, y] = plan.places[place].map((values) => values[user]);
    if (!layers[mark.key] || Number.isNaN(x)) return;
    const cell = mark.values[track.at[user]];
    if (!spots.has(cell)) spots.set(cell, { x, y, names: [] });
    spots.get(cell).names.push(mark.short);
  });
  const taken = [...spots.values()].map(({ x, y }) => [x - 2 * size, y - 2 * size, x + 2 * size, y + 2 * size]);
  context.font = colours.font;
  context.textAlign = "left";
  for (const { x, y, names } of spots.values()) {
    const whole = names.join(" = ");
    const text = context.measureText(whole).width > 0.4 * plan.width ? `${names[0]} + ${names.length - 1} more` : whole;
    const wide = context.measureText(text).width;
    const gap = 2 * size + 3;
    const beside = [[x + gap, y], [x - gap - wide, y]];
    const above = [-1, 1].map((side) => [x - wide / 2, y + side * (gap + 6)]);
    const aslant = [-14, 14].map((down) => [x + gap, y + down]);
    const tries = [...beside, ...above, ...aslant];
    /** @type {(spot: number[]) => number[]} */
    const box = ([left, middle]) => [left, middle - 8, left + wide, middle + 8];
    /** @type {(box: number[]) => boolean} */
    const free = ([left, top, right, bottom]) => left >= 0 && right <= plan.width && top >= 0
      && taken.every((other) => right < other[0] || left > other[2] || bottom < other[1] || top > other[3]);
    const [start, middle] = tries.find((spot) => free(box(spot))) ?? beside[x + gap + wide > plan.width ? 1 : 0];
    const left = Math.max(2, Math.min(start, plan.width - wide - 2));
    taken.push(box([left, middle]));
    context.globalAlpha = 0.75;
    context.fillStyle = colours["--paper"];
    context.fillRect(left - 2, middle - 8, wide + 4, 16);
    context.globalAlpha = 1;
    context.strokeStyle = colours["--paper"];
    context.lineWidth = 4;
    context.strokeText(text, left, middle + 4);
    context.fillStyle = colours["--ink"];
    context.fillText(text, left, middle + 4);
  }
}

// Return a canvas with one pixel per tile of cells, shaded by the square root of the probability.
/**
 * @param track
 * @param lppm
 * @param snapshot
 * @param {number[]} colour red, green and blue
 */
function heatOf(track, lppm, snapshot, [red, green, blue]) {
  const { rows, cols } = track.world.tiles;
  const canvas = Object.assign(document.createElement("canvas"), { width: cols, height: rows });
  const image = new ImageData(cols, rows);
  for (let tile = 0; tile < rows * cols; tile++) {
    const row = rows - 1 - Math.floor(tile / cols);
    const value = lppm.beliefs.value[snapshot * rows * cols + tile];
    image.data.set([red, green, blue, Math.round(0.85 * value)], 4 * (row * cols + (tile % cols)));
  }
  canvas.getContext("2d").putImageData(image, 0, 0);
  return canvas;
}

// Return a CSS colour as red, green and blue from 0 to 255.
function channels(context, colour) {
  context.fillStyle = colour;
  return [1, 3, 5].map((place) => parseInt(context.fillStyle.slice(place, place + 2), 16));
}

// Draw the legend swatch of a layer, 28 by 20 pixels.
function paintSwatch(context, layer, marks, colours) {
  const mark = marks.find(({ key }) => key === layer);
  if (mark) {
    context.beginPath();
    outlineMark(context, mark.shape, 14, 10, 4.3);
    paintMarks(context, mark.shape, colours[mark.colour], 2.2);
    return;
  }
  if (layer === "belief") {
    context.fillStyle = colours[HEAT_COLOUR];
    for (let step = 0; step < 4; step++) {
      context.globalAlpha = 0.85 * (step + 1) / 4;
      context.fillRect(2 + 6 * step, 4, 6, 12);
    }
    return;
  }
  const look = { errors: ["--series-1", 1.8], trails: ["--ink", 2], roads: ["--soft", 1.5], cells: ["--rule", 1] }[layer];
  context.strokeStyle = colours[look[0]];
  context.lineWidth = look[1];
  if (layer === "cells") {
    context.strokeRect(4.5, 2.5, 9, 7);
    context.strokeRect(13.5, 2.5, 9, 7);
    context.strokeRect(4.5, 9.5, 9, 7);
    context.strokeRect(13.5, 9.5, 9, 7);
    return;
  }
  for (let part = 0; part < 3; part++) {
    context.globalAlpha = layer === "trails" ? (part + 1) / 3 : 1;
    context.beginPath();
    context.moveTo(3 + 7 * part, 14 - 3 * part);
    context.lineTo(10 + 7 * part, 11 - 3 * part);
    context.stroke();
  }
}
