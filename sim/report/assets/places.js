// @ts-check
// Locations on the map of the replay: positions, outlines and names of the cells of a grid or of other locations.

// Return positions, in km from the west and the north, and extent of the locations.
async function readPlaces(world) {
  const { rows, cols, width_km: width, height_km: height, labels } = world;
  if (rows === undefined) {
    const [x, y] = await Promise.all([world.x_m, world.y_m].map(unpack));
    return {
      grid: false, cells: x.length, stepX: world.spacing_km, stepY: world.spacing_km, labels,
      x: Float64Array.from(x, (metres) => metres / 1000),
      y: Float64Array.from(y, (metres) => height - metres / 1000),
      outlines: world.outlines && await readOutlines(world.outlines, height),
    };
  }
  const cells = rows * cols;
  return {
    grid: true, cells, stepX: width / cols, stepY: height / rows, labels: null, outlines: null,
    x: Float64Array.from({ length: cells }, (_, cell) => ((cell % cols) + 0.5) * (width / cols)),
    y: Float64Array.from({ length: cells }, (_, cell) => height - (Math.floor(cell / cols) + 0.5) * (height / rows)),
  };
}

// Return the vertices of all outlines in km; those of a location are start[cell] to start[cell + 1].
async function readOutlines({ closed, step_m: step, ...packed }, height) {
  const [start, east, north] = await Promise.all([packed.start, packed.x, packed.y].map(unpack));
  for (let vertex = 1; vertex < east.length; vertex++) {
    east[vertex] += east[vertex - 1];
    north[vertex] += north[vertex - 1];
  }
  const x = Float64Array.from(east, (steps) => (steps * step) / 1000);
  const y = Float64Array.from(north, (steps) => height - (steps * step) / 1000);
  return { closed, start, x, y };
}

// Return the extent of a tile of beliefs in km; null if each location has its own belief.
function tileKm({ tiles }, { stepX, stepY }) {
  if (!tiles) return null;
  return tiles.size === undefined ? [tiles.side_km, tiles.side_km] : [tiles.size * stepX, tiles.size * stepY];
}

// Return the name of a location.
function placeText({ places }, cell) {
  if (places.grid) return `cell ${cell}`;
  const label = places.labels?.[cell];
  return label ? `location ${cell} (${label})` : `location ${cell}`;
}

const placesText = ({ places }, count) => `${number(count)} ${places.grid ? "cell" : "location"}${count === 1 ? "" : "s"}`;

// Add the outline of a location to the current path: its polygon, its line, or a disc of a radius in pixels.
function outlinePlace(context, { places: { grid, outlines } }, { scale, left, top, right, down, x, y }, cell, radius) {
  if (grid) {
    context.rect(x[cell] - right / 2, y[cell] - down / 2, right, down);
  } else if (outlines) {
    const [first, end] = [outlines.start[cell], outlines.start[cell + 1]];
    for (let vertex = first; vertex < end; vertex++) {
      const at = [left + scale * outlines.x[vertex], top + scale * outlines.y[vertex]];
      if (vertex === first) context.moveTo(at[0], at[1]);
      else context.lineTo(at[0], at[1]);
    }
    if (outlines.closed) context.closePath();
  } else {
    context.moveTo(x[cell] + radius, y[cell]);
    context.arc(x[cell], y[cell], radius, 0, 2 * Math.PI);
  }
}

// Return the radius of the discs that represent points, in pixels.
const discRadius = ({ right }) => Math.min(12, Math.max(3, 0.5 * right));

// Shade a location: fill its area, or draw its line.
function shadePlace(context, track, plan, cell) {
  context.beginPath();
  outlinePlace(context, track, plan, cell, discRadius(plan));
  if (track.places.outlines && !track.places.outlines.closed) context.stroke();
  else context.fill();
}

// Draw all locations: borders of areas that are large enough, lines, or dots.
function drawPlaces(context, track, plan, colours) {
  const { places: { outlines, cells } } = track;
  if (outlines?.closed && plan.right < 2) return;
  context.beginPath();
  for (let cell = 0; cell < cells; cell++) outlinePlace(context, track, plan, cell, cells > 2000 ? 1 : 1.7);
  context.strokeStyle = context.fillStyle = colours[outlines ? "--rule" : "--soft"];
  context.lineWidth = outlines && !outlines.closed ? 1.5 : 1;
  if (outlines) {
    context.stroke();
  } else {
    context.globalAlpha = 0.6;
    context.fill();
    context.globalAlpha = 1;
  }
}

// Shade the locations by the square root of their probabilities.
function drawBeliefs(context, track, plan, lppm, snapshot, colour) {
  const { cells } = track.places;
  context.fillStyle = context.strokeStyle = colour;
  context.lineWidth = 5;
  for (let cell = 0; cell < cells; cell++) {
    const value = lppm.beliefs.value[snapshot * cells + cell];
    if (!value) continue;
    context.globalAlpha = (0.85 * value) / 255;
    shadePlace(context, track, plan, cell);
  }
  context.globalAlpha = 1;
}
