// @ts-check
// Data of a replay: the decoded run, moments on its time line, and the description in text.

// Unpack the replay of one run. A cell beyond the last one stands for none (no report, no estimate).
async function readTrack(raw, series) {
  const start = [0];
  for (const count of raw.queries) start.push(start.at(-1) + count);
  const [time, cell] = await Promise.all([unpack(raw.time_s), unpack(raw.cell)]);
  const lppms = await Promise.all(raw.lppms.map((lppm) => readTrackLppm(lppm, series)));
  const { width_km: width, height_km: height } = raw.world;
  const places = await readPlaces(raw.world);
  return {
    ...raw, start, time, cell, lppms, width, height, places,
    cells: places.cells,
    roads: await readRoads(raw.world.roads),
    attacks: [...new Set(lppms.flatMap((lppm) => lppm.estimates.map((estimate) => estimate.attack)))],
    shifts: raw.shifts.filter(({ user, index }) => index <= raw.queries[user]),
    at: Int32Array.from(start.slice(0, -1), (first) => first - 1),
  };
}

async function readTrackLppm(lppm, series) {
  const { name } = series[lppm.series];
  const estimates = lppm.estimates.map(async ({ attack, cell, km }) => ({ attack, values: await unpack(cell), steps: km && await unpack(km) }));
  return {
    name,
    title: lppm.at ? `${name}, ${lppm.at}` : name,
    output: await unpack(lppm.output),
    space: lppm.space,
    named: lppm.named && await readNamed(lppm.named),
    steps: lppm.km && await unpack(lppm.km),
    estimates: await Promise.all(estimates),
    beliefs: lppm.beliefs && { ...lppm.beliefs, value: await unpack(lppm.beliefs.value) },
  };
}

// Return a function that gives the cells covered by the output of a query: start[output] to start[output + 1].
async function readNamed(named) {
  const [output, start, cells] = await Promise.all([named.output, named.start, named.cells].map(unpack));
  return (query) => cells.subarray(start[output[query]], start[output[query] + 1]);
}

async function readRoads(roads) {
  if (!roads) return null;
  const [x, y, from, to] = await Promise.all([roads.x_m, roads.y_m, roads.from, roads.to].map(unpack));
  return { x, y, from, to };
}

// ---- moments: seconds, or query indices

// Move each user's cursor `at` to the last query at or before the moment; start - 1 before the first query.
function seekTrack(track, axis, moment) {
  const { at, start, time } = track;
  for (let user = 0; user < at.length; user++) {
    const first = start[user];
    const end = start[user + 1];
    if (axis === "query") {
      at[user] = Math.min(end, first + Math.floor(moment)) - 1;
      continue;
    }
    let query = at[user];
    while (query + 1 < end && time[query + 1] <= moment) query++;
    while (query >= first && time[query] > moment) query--;
    at[user] = query;
  }
}

const momentOf = (track, axis, user, query) => (axis === "query" ? query - track.start[user] + 1 : track.time[query]);

// Return the first and last moment, and the available speeds in moments per second.
function momentRange(track, axis) {
  if (axis === "query") {
    return { first: 1, last: Math.max(1, ...track.queries), speeds: [1, 2, 5, 10, 20, 50, 100] };
  }
  let first = Infinity;
  let last = -Infinity;
  for (const second of track.time) {
    first = Math.min(first, second);
    last = Math.max(last, second);
  }
  const speeds = [60, 300, 600, 1800, 3600, 3 * 3600, 6 * 3600, 12 * 3600, 86400, 2 * 86400, 7 * 86400, 30 * 86400];
  const fits = speeds.filter((speed) => (last - first) / speed >= 4 && (last - first) / speed <= 1800);
  return { first, last, speeds: fits.length ? fits : [60] };
}

// Return the speed at which the replay takes about a minute.
function usualSpeed({ first, last, speeds }) {
  const misses = speeds.map((speed) => Math.abs(Math.log((last - first || 1) / speed / 60)));
  return speeds[misses.indexOf(Math.min(...misses))];
}

// Return the next (or previous) moment at which one of these users has a query; the same moment if there is none.
function neighbourMoment(track, axis, users, moment, step) {
  if (axis === "query") return step > 0 ? Math.floor(moment) + 1 : Math.ceil(moment) - 1;
  let nearest = step * Infinity;
  for (const user of users) {
    let query = track.at[user] + (step > 0 ? 1 : 0);
    while (query >= track.start[user] && step < 0 && track.time[query] >= moment) query--;
    if (query < track.start[user] || query >= track.start[user + 1]) continue;
    nearest = step > 0 ? Math.min(nearest, track.time[query]) : Math.max(nearest, track.time[query]);
  }
  return Number.isFinite(nearest) ? nearest : moment;
}

const queryText = (count) => `${number(count)} ${count === 1 ? "query" : "queries"}`;

function durationText(seconds) {
  /** @type {[number, string][]} */
  const units = [[86400, "day"], [3600, "hour"], [60, "minute"]];
  const [size, unit] = units.find(([least]) => seconds >= least);
  const count = seconds / size;
  return `${number(count)} ${unit}${count === 1 ? "" : "s"}`;
}

function clockText(track, seconds, parts = "all") {
  const date = new Date(seconds * 1000);
  const hour = date.toISOString().slice(11, 16);
  if (parts === "hour") return hour;
  /** @type {Intl.DateTimeFormatOptions} */
  const options = { timeZone: "UTC", day: "numeric", month: "short" };
  if (parts === "all") Object.assign(options, { weekday: "short", year: "numeric" });
  const isDate = track.clock === "date";
  const day = isDate ? date.toLocaleDateString("en-GB", options) : `day ${Math.floor(seconds / 86400) + 1}`;
  return parts === "day" ? day : `${day}, ${hour}`;
}

// Return at most `most` round ticks of the time line: [{moment, text}].
function momentTicks(track, axis, { first, last }, most) {
  const days = [1, 2, 7, 14, 30, 60, 120, 365, 730, 3650].map((day) => day * 86400);
  const steps = axis === "query"
    ? [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 100000]
    : [60, 300, 900, 1800, 3600, 2 * 3600, 3 * 3600, 6 * 3600, 12 * 3600, ...days];
  const step = steps.find((size) => (last - first) / size <= most) ?? steps.at(-1);
  const ticks = [];
  for (let moment = Math.ceil(first / step) * step; moment <= last; moment += step) {
    const part = moment % 86400 === 0 ? "day" : "hour";
    ticks.push({ moment, text: axis === "query" ? number(moment) : clockText(track, moment, part) });
  }
  return ticks;
}

// ---- beliefs

// Return the belief snapshot at the current query of a user, {snapshot}, or the reason why there is none, {none}.
function beliefAt(track, lppm, user) {
  const { beliefs } = lppm;
  if (!beliefs) return { none: `no beliefs of ${lppm.name} were recorded` };
  if (user === null) return { none: "select a user to see the belief about them" };
  const index = track.at[user] - track.start[user] + 1;
  const own = beliefs.user.map((_, snapshot) => snapshot).filter((snapshot) => beliefs.user[snapshot] === user);
  if (!own.length) return { none: `no beliefs about ${track.users[user]} were recorded` };
  const snapshot = own.filter((place) => beliefs.index[place] <= index).at(-1);
  if (snapshot === undefined) return { none: `first belief about ${track.users[user]} recorded at query ${beliefs.index[own[0]]}` };
  return { snapshot };
}

function beliefText(track, lppm, user, snapshot) {
  const { index, top } = lppm.beliefs;
  const most = number(100 * top[snapshot], 2);
  const { size = 1, side_km: side } = track.world.tiles ?? {};
  const single = side ? `square of ${number(1000 * side)} m` : placesText(track, 1).slice(2);
  const darkest = size > 1 ? `tile of ${size} × ${size} cells` : single;
  return `about ${track.users[user]} before query ${index[snapshot]}; the darkest ${darkest} has probability ${most} %`;
}

// ---- description in text

// Return the distance of a mark from the true position in the metric of the run: Manhattan, Euclidean, or recorded steps.
function distanceKm(track, { attack, values, steps }, query) {
  if (steps) return steps[query] / 100;
  const [one, other] = [track.cell[query], values[query]];
  const across = track.places.x[one] - track.places.x[other];
  const along = track.places.y[one] - track.places.y[other];
  const kind = attack === undefined ? track.distances.loss : track.distances.error;
  return kind === "manhattan" ? Math.abs(across) + Math.abs(along) : Math.hypot(across, along);
}

// Return the description of a report that is not a single cell; otherwise null.
function reportText(track, { space, named, values, steps }, query) {
  const far = `loss ${number(steps ? steps[query] / 100 : 0)} km`;
  if (space === "regions") return `Report: a region of ${placesText(track, named(query).length)} around ${placeText(track, values[query])}, ${far}.`;
  if (space === "sets") return `Report: a set of ${placesText(track, named(query).length)} including the true one, ${far}.`;
  if (space === "points" || space === "places") return `Report: a point in or next to ${placeText(track, values[query])}, ${far}.`;
  return space !== "cells" && values[query] >= track.cells ? `Report: none, ${far}.` : null;
}

// Describe one user: one sentence per mark.
function userText(track, marks, user) {
  const query = track.at[user];
  if (query < track.start[user]) return [`${track.users[user]} has no query yet.`];
  const truth = track.cell[query];
  const index = query - track.start[user] + 1;
  const sentences = marks.slice(1).map((mark) => {
    const { attack } = mark;
    const cell = mark.values[query];
    const own = attack === undefined && reportText(track, mark, query);
    if (own) return own;
    const subject = attack === undefined ? "Report" : `Estimate of ${attack}`;
    if (cell >= track.cells) return `${subject}: none.`;
    const far = distanceKm(track, mark, query);
    const metric = attack === undefined ? "loss" : "error";
    return `${subject}: ${cell === truth ? `the true ${placesText(track, 1).slice(2)}` : `${placeText(track, cell)}, ${metric} ${number(far)} km`}.`;
  });
  const when = `query ${index} of ${track.queries[user]} (${clockText(track, track.time[query])})`;
  return [`${track.users[user]} is ${track.places.grid ? "in" : "at"} ${placeText(track, truth)} at ${when}.`, ...sentences];
}

// Describe many users: the mean distances from the true positions.
function crowdText(track, marks, users) {
  const active = users.filter((user) => track.at[user] >= track.start[user]);
  const sentences = [`${active.length} of ${users.length} users have made a query.`];
  if (!active.length) return sentences;
  for (const mark of marks.slice(1)) {
    const { attack, values } = mark;
    const all = attack === undefined && mark.steps; // a missing report has a loss too
    const known = all ? active : active.filter((user) => values[track.at[user]] < track.cells);
    const far = known.map((user) => distanceKm(track, mark, track.at[user]));
    const mean = number(far.reduce((sum, km) => sum + km, 0) / far.length);
    const right = known.filter((user) => values[track.at[user]] === track.cell[track.at[user]]).length;
    sentences.push(attack === undefined
      ? `Reports: mean loss ${mean} km.`
      : `Estimates of ${attack}: mean error ${mean} km, ${right} of ${known.length} correct.`);
  }
  return sentences;
}

// Describe the shifts: of the followed user within five queries, otherwise the number of users after their shift.
function shiftText(track, user, users) {
  if (user !== null) {
    const index = track.at[user] - track.start[user] + 1;
    return track.shifts.filter((shift) => shift.user === user && Math.abs(shift.index - index) <= 5).map((shift) => {
      const what = `Shift “${shift.name}”${shift.ends ? " ends" : ""}`;
      const far = index - shift.index;
      return far === 0 ? `${what} at this query.` : `${what} ${queryText(Math.abs(far))} ${far > 0 ? "ago" : "ahead"}.`;
    });
  }
  const names = [...new Set(track.shifts.filter((shift) => !shift.ends).map((shift) => shift.name))];
  return names.map((name) => {
    const all = track.shifts.filter((shift) => shift.name === name && !shift.ends && users.includes(shift.user));
    const had = all.filter((shift) => track.at[shift.user] - track.start[shift.user] + 1 >= shift.index);
    return `Shift “${name}”: occurred for ${had.length} of ${all.length} users.`;
  });
}
