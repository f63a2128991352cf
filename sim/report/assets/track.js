// @ts-check
// What a replay holds, without anything drawn: the decoded run, moments on its time line, and what is seen in words.

// Unpack one run's replay. A cell beyond the last one means that there is none (nothing was sent, no guess).
async function readTrack(raw, series) {
  const start = [0];
  for (const count of raw.queries) start.push(start.at(-1) + count);
  const [time, cell] = await Promise.all([unpack(raw.time_s), unpack(raw.cell)]);
  const lppms = await Promise.all(raw.lppms.map((lppm) => readTrackLppm(lppm, series)));
  const { rows, cols, width_km: width, height_km: height } = raw.world;
  return {
    ...raw, start, time, cell, lppms, rows, cols, width, height,
    cells: rows * cols,
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

// Which cells an output names, where these are several: those from start[said] to start[said + 1].
async function readNamed(named) {
  const [said, start, cells] = await Promise.all([named.said, named.start, named.cells].map(unpack));
  return (query) => cells.subarray(start[said[query]], start[said[query] + 1]);
}

async function readRoads(roads) {
  if (!roads) return null;
  const [x, y, from, to] = await Promise.all([roads.x_m, roads.y_m, roads.from, roads.to].map(unpack));
  return { x, y, from, to };
}

// ---- moments: seconds, or query indices

// Move every user's cursor `at` to her last query at or before the moment; before her first query it is start - 1.
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

// Return the first and the last moment, and the speeds to choose from in moments a second.
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

// The speed at which the whole takes about a minute.
function usualSpeed({ first, last, speeds }) {
  const misses = speeds.map((speed) => Math.abs(Math.log((last - first || 1) / speed / 60)));
  return speeds[misses.indexOf(Math.min(...misses))];
}

// The next (or previous) moment at which one of these users has a query; the same moment if there is none.
function neighbourMoment(track, axis, users, moment, step) {
  if (axis === "query") return step > 0 ? Math.floor(moment) + 1 : Math.ceil(moment) - 1;
  let found = step * Infinity;
  for (const user of users) {
    let query = track.at[user] + (step > 0 ? 1 : 0);
    while (query >= track.start[user] && step < 0 && track.time[query] >= moment) query--;
    if (query < track.start[user] || query >= track.start[user + 1]) continue;
    found = step > 0 ? Math.min(found, track.time[query]) : Math.max(found, track.time[query]);
  }
  return Number.isFinite(found) ? found : moment;
}

const queryWords = (count) => `${number(count)} ${count === 1 ? "query" : "queries"}`;

function durationWords(seconds) {
  /** @type {[number, string][]} */
  const units = [[86400, "day"], [3600, "hour"], [60, "minute"]];
  const [size, unit] = units.find(([least]) => seconds >= least);
  const count = seconds / size;
  return `${number(count)} ${unit}${count === 1 ? "" : "s"}`;
}

function clockWords(track, seconds, parts = "all") {
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

// Return [{moment, text}]: at most so many round ticks of the time line.
function momentTicks(track, axis, { first, last }, most) {
  const days = [1, 2, 7, 14, 30, 60, 120, 365, 730, 3650].map((day) => day * 86400);
  const steps = axis === "query"
    ? [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 100000]
    : [60, 300, 900, 1800, 3600, 2 * 3600, 3 * 3600, 6 * 3600, 12 * 3600, ...days];
  const step = steps.find((size) => (last - first) / size <= most) ?? steps.at(-1);
  const ticks = [];
  for (let moment = Math.ceil(first / step) * step; moment <= last; moment += step) {
    const part = moment % 86400 === 0 ? "day" : "hour";
    ticks.push({ moment, text: axis === "query" ? number(moment) : clockWords(track, moment, part) });
  }
  return ticks;
}

// ---- what the mechanism believes

// Return which snapshot of what is believed of the user holds at her present query, or why there is none: {snapshot} or {none}.
function beliefAt(track, lppm, user) {
  const { beliefs } = lppm;
  if (!beliefs) return { none: `no beliefs of ${lppm.name} were kept` };
  if (user === null) return { none: "follow one user to see what is believed of her" };
  const index = track.at[user] - track.start[user] + 1;
  const own = beliefs.user.map((_, snapshot) => snapshot).filter((snapshot) => beliefs.user[snapshot] === user);
  if (!own.length) return { none: `none were kept of ${track.users[user]}` };
  const snapshot = own.filter((place) => beliefs.index[place] <= index).at(-1);
  if (snapshot === undefined) return { none: `the first one of ${track.users[user]} is of query ${beliefs.index[own[0]]}` };
  return { snapshot };
}

function beliefWords(track, lppm, user, snapshot) {
  const { index, top } = lppm.beliefs;
  const most = number(100 * top[snapshot], 2);
  return `of ${track.users[user]}, before her query ${index[snapshot]}: where she is expected; the strongest shade is ${most} %`;
}

// ---- in words

// Return how far a mark is from the truth, as the run measures it: along the axes, straight, or in the steps that came with it.
function distanceKm(track, { attack, values, steps }, query) {
  if (steps) return steps[query] / 100;
  const [one, other] = [track.cell[query], values[query]];
  const across = ((one % track.cols) - (other % track.cols)) * (track.width / track.cols);
  const along = (Math.floor(one / track.cols) - Math.floor(other / track.cols)) * (track.height / track.rows);
  const kind = attack === undefined ? track.distances.loss : track.distances.error;
  return kind === "manhattan" ? Math.abs(across) + Math.abs(along) : Math.hypot(across, along);
}

// Say what was reported where that is no cell; nothing where it is one.
function reportWords({ space, named, values, steps }, query, cells) {
  const far = `loss ${number(steps ? steps[query] / 100 : 0)} km`;
  if (space === "regions") return `Reports a region of ${cellWords(named(query).length)} around cell ${values[query]}: ${far}.`;
  if (space === "sets") return `Reports ${cellWords(named(query).length)}, one of them the true one: ${far}.`;
  if (space === "points") return `Reports a place in or next to cell ${values[query]}: ${far}.`;
  return space !== "cells" && values[query] >= cells ? `Reports nothing: ${far}.` : null;
}

const cellWords = (count) => `${number(count)} cell${count === 1 ? "" : "s"}`;

// Say what is seen of one user: one sentence per mark.
function userWords(track, marks, user) {
  const query = track.at[user];
  if (query < track.start[user]) return [`${track.users[user]} has not asked yet.`];
  const truth = track.cell[query];
  const index = query - track.start[user] + 1;
  const said = marks.slice(1).map((mark) => {
    const { attack } = mark;
    const cell = mark.values[query];
    const own = attack === undefined && reportWords(mark, query, track.cells);
    if (own) return own;
    const verb = attack === undefined ? "Reports" : `${attack} guesses`;
    if (cell >= track.cells) return `${verb} nothing.`;
    const far = distanceKm(track, mark, query);
    const what = attack === undefined ? "loss" : "error";
    return `${verb} ${cell === truth ? "the true cell" : `cell ${cell}: ${what} ${number(far)} km`}.`;
  });
  const when = `query ${index} of ${track.queries[user]} (${clockWords(track, track.time[query])})`;
  return [`${track.users[user]} is in cell ${truth} at ${when}.`, ...said];
}

// Say what is seen of many users: the mean distances from the truth.
function crowdWords(track, marks, users) {
  const there = users.filter((user) => track.at[user] >= track.start[user]);
  const words = [`${there.length} of ${users.length} users have asked.`];
  if (!there.length) return words;
  for (const mark of marks.slice(1)) {
    const { attack, values } = mark;
    const all = attack === undefined && mark.steps; // no report costs too
    const known = all ? there : there.filter((user) => values[track.at[user]] < track.cells);
    const far = known.map((user) => distanceKm(track, mark, track.at[user]));
    const mean = number(far.reduce((sum, km) => sum + km, 0) / far.length);
    const right = known.filter((user) => values[track.at[user]] === track.cell[track.at[user]]).length;
    words.push(attack === undefined
      ? `Reports: mean loss ${mean} km.`
      : `${attack}: mean error ${mean} km, ${right} of ${known.length} guessed right.`);
  }
  return words;
}

// Say which shifts are near: of the followed user within five queries, else how many have had theirs.
function shiftWords(track, user, users) {
  if (user !== null) {
    const index = track.at[user] - track.start[user] + 1;
    return track.shifts.filter((shift) => shift.user === user && Math.abs(shift.index - index) <= 5).map((shift) => {
      const what = `Shift “${shift.name}”${shift.ends ? " ends" : ""}`;
      const far = index - shift.index;
      return far === 0 ? `${what} just now.` : `${what} ${queryWords(Math.abs(far))} ${far > 0 ? "ago" : "ahead"}.`;
    });
  }
  const names = [...new Set(track.shifts.filter((shift) => !shift.ends).map((shift) => shift.name))];
  return names.map((name) => {
    const all = track.shifts.filter((shift) => shift.name === name && !shift.ends && users.includes(shift.user));
    const had = all.filter((shift) => track.at[shift.user] - track.start[shift.user] + 1 >= shift.index);
    return `Shift “${name}”: ${had.length} of ${all.length} have had it.`;
  });
}
