// @ts-check
// Replay: the map with its time line, and the controls for mechanism, speed, users and layers.

const PLAIN_LAYERS = [
  ["errors", "Adversary error: line from the true position to each estimate"],
  ["trails", "Trails of the last ten queries"],
  ["belief", "Belief of the mechanism"],
  ["roads", "Roads"],
  ["cells", "Cells"],
];
const KEYS = "Keyboard, with the map or the time line focused: Space plays and pauses, ← → select the previous or next query, "
  + "↑ ↓ select another user. Click a mark on the map to follow that user.";
const THEME = ["--ink", "--paper", "--rule", "--soft", "--accent", ...[0, 1, 2, 3, 4, 5, 6].map((place) => `--series-${place}`)];

function makeReplay(root) {
  const replay = new Replay(root);
  return { show: (data) => replay.show(data) };
}

function labelled(text, control) {
  control.id = `replay-${text.toLowerCase().replaceAll(" ", "-")}`;
  return element("span", { class: "replay-field" }, element("label", { for: control.id }, text), control);
}

function pushButton(text, title, action) {
  const button = element("button", { type: "button", title, "aria-label": title }, text);
  button.addEventListener("click", action);
  return button;
}

function dropDown(action) {
  const select = element("select");
  select.addEventListener("change", () => action(select.value));
  return select;
}

// Fill a select with options [value, text, disabled] and select one; unchanged options are left alone, so that an open
// list stays open.
function offer(select, options, chosen) {
  const made = options.map(([value, text, disabled = false]) => element("option", { value, disabled }, text));
  const same = made.length === select.options.length && made.every((option, place) => option.isEqualNode(select.options[place]));
  if (!same) select.replaceChildren(...made);
  select.value = String(chosen);
}

class Replay {
  constructor(root) {
    this.root = root;
    // Selections by name, which remain valid when newer data arrive.
    this.chosen = { run: null, lppm: null, axis: null, follow: undefined, others: "faint", zoom: 1, speed: {}, off: new Set() };
    /** @type {Record<string, boolean>} */
    this.layers = { truth: true, report: true, ...Object.fromEntries(PLAIN_LAYERS.map(([key]) => [key, true])) };
    this.moment = null;
    this.playing = false;
    this.frames = 0;
    this.calls = 0;
    this.build();
    this.listen();
  }

  // ---- elements, created once

  build() {
    this.canvas = element("canvas");
    const role = { role: "application", "aria-label": "Map of the replay", "aria-describedby": "replay-keys" };
    this.frame = element("div", { class: "replay-frame", tabindex: 0, ...role }, this.canvas);
    this.words = element("div", { class: "replay-words", role: "status", "aria-live": "off" });
    this.layerList = element("div", { class: "replay-layers" });
    this.buildUsers();
    this.panel = element("div", { class: "replay-panel" },
      this.words,
      element("fieldset", {}, element("legend", {}, "Layers"), this.layerList),
      this.userBox);
    this.buildTransport();
    this.none = element("p", { class: "none" });
    this.note = element("p", { class: "note" });
    this.keys = element("p", { class: "note", id: "replay-keys" }, KEYS);
    this.column = element("div", { class: "replay-column" }, this.bar, this.line, this.frame);
    this.stage = element("div", { class: "replay-stage" }, this.column, this.panel);
    const choices = element("div", { class: "replay-bar" }, this.runField, this.lppmField, this.axisField, this.zoomField);
    this.root.replaceChildren(choices, this.none, this.stage, this.note, this.keys);
  }

  buildUsers() {
    this.followSelect = dropDown((value) => this.follow(value === "" ? null : this.track.users[value]));
    this.othersSelect = dropDown((value) => this.choose({ others: value }));
    offer(this.othersSelect, [["full", "all marks"], ["faint", "faint, true position only"], ["hidden", "hidden"]], "faint");
    this.search = element("input", { type: "search", placeholder: "part of a name" });
    this.search.addEventListener("input", () => this.filterUsers());
    this.userList = element("div", { class: "replay-list", role: "group", "aria-label": "Users shown on the map" });
    this.userCount = element("summary");
    this.userBox = element("fieldset", {}, element("legend", {}, "Users"),
      element("div", { class: "replay-row replay-follow" },
        labelled("Follow", this.followSelect),
        pushButton("‹", "Follow the previous user", () => this.stepUser(-1)),
        pushButton("›", "Follow the next user", () => this.stepUser(1))),
      element("div", { class: "replay-row" }, labelled("Other users", this.othersSelect)),
      element("details", {}, this.userCount,
        element("div", { class: "replay-row" },
          labelled("Find", this.search),
          pushButton("All", "Show all users in the list", () => this.showListed(true)),
          pushButton("None", "Hide all users in the list", () => this.showListed(false))),
        this.userList));
  }

  buildTransport() {
    this.ticks = shape("svg", { class: "replay-ticks", "aria-hidden": "true" });
    this.scrub = element("input", { type: "range", step: "any", "aria-label": "Time" });
    this.scrub.addEventListener("input", () => this.goTo(this.wholeMoment(Number(this.scrub.value))));
    this.line = element("div", { class: "replay-line" }, this.ticks, this.scrub);
    this.playButton = pushButton("Play", "Play or pause", () => this.toggle());
    this.playButton.classList.add("replay-play");
    this.axisSelect = dropDown((value) => this.changeAxis(value));
    offer(this.axisSelect, [["time", "time"], ["query", "query index"]], "time");
    this.speedSelect = dropDown((value) => this.changeSpeed(Number(value)));
    this.zoomSelect = dropDown((value) => this.choose({ zoom: Number(value) }));
    offer(this.zoomSelect, [[1, "whole map"], [3, "3 ×"], [10, "10 ×"]], 1);
    this.lppmSelect = dropDown((value) => this.choose({ lppm: this.track.lppms[value].title }));
    this.runSelect = dropDown((value) => this.changeRun(value));
    this.runField = labelled("Run", this.runSelect);
    this.axisField = labelled("Time line by", this.axisSelect);
    this.zoomField = labelled("Zoom", this.zoomSelect);
    this.lppmField = labelled("Mechanism", this.lppmSelect);
    this.bar = element("div", { class: "replay-bar" },
      this.playButton,
      pushButton("‹ Query", "Previous query", () => this.stepQuery(-1)),
      pushButton("Query ›", "Next query", () => this.stepQuery(1)),
      labelled("Speed", this.speedSelect));
  }

  listen() {
    this.root.addEventListener("keydown", (event) => this.key(event));
    this.canvas.addEventListener("click", ({ offsetX, offsetY }) => {
      const user = this.userAt(offsetX, offsetY);
      if (user !== null) this.follow(this.track.users[user]);
    });
    this.canvas.addEventListener("pointermove", ({ offsetX, offsetY }) => {
      this.canvas.title = this.track.users[this.userAt(offsetX, offsetY)] ?? "";
    });
    new ResizeObserver(() => this.fit()).observe(this.stage);
    for (const media of ["(prefers-color-scheme: dark)", "print", "(prefers-reduced-motion: reduce)"]) {
      matchMedia(media).addEventListener("change", () => this.readTheme());
    }
    hidden.listen(() => this.track && this.changed());
  }

  key(event) {
    const action = {
      " ": () => this.toggle(),
      ArrowRight: () => this.stepQuery(1),
      ArrowLeft: () => this.stepQuery(-1),
      ArrowDown: () => this.stepUser(1),
      ArrowUp: () => this.stepUser(-1),
      PageDown: () => this.jump(0.1),
      PageUp: () => this.jump(-0.1),
      Home: () => this.goTo(this.range.first),
      End: () => this.goTo(this.range.last),
    }[event.key];
    if (!action || !this.track || event.ctrlKey || event.altKey || event.metaKey) return;
    if (event.target !== this.frame && event.target !== this.scrub) return;
    event.preventDefault();
    action();
  }

  // ---- data and selections

  async show(data) {
    const call = ++this.calls;
    this.data = data;
    const { replay } = data;
    const raw = replay.find(({ run }) => run === this.chosen.run) ?? replay.find(({ none }) => !none) ?? replay[0];
    const track = raw.none === undefined ? await readTrack(raw, data.series) : null;
    if (call !== this.calls) return;
    offer(this.runSelect, replay.map(({ run }) => [run, run]), raw.run);
    this.runField.hidden = replay.length < 2;
    this.none.hidden = track !== null;
    this.none.textContent = raw.none ?? "";
    for (const shown of [this.stage, this.keys, this.lppmField, this.axisField, this.zoomField]) shown.hidden = track === null;
    this.track = track;
    this.note.textContent = raw.note ?? "";
    if (track === null) this.pause();
    else this.adopt();
  }

  // Adopt the data of a run and preserve earlier selections where possible.
  adopt() {
    const { track, chosen } = this;
    this.names = new Map(track.users.map((name, user) => [name, user]));
    if (chosen.follow !== null && !this.names.has(chosen.follow)) chosen.follow = track.users[0] ?? null;
    this.axis = chosen.axis ?? track.axis;
    this.readRange();
    this.listUsers();
    this.plan = null;
    this.changed();
    this.readTheme();
    this.fit();
  }

  readRange() {
    this.range = momentRange(this.track, this.axis);
    const { first, last, speeds } = this.range;
    this.moment = Math.min(last, Math.max(first, this.moment ?? first));
    Object.assign(this.scrub, { min: first, max: last });
    const speed = this.chosen.speed[this.axis];
    this.speed = speeds.includes(speed) ? speed : usualSpeed(this.range);
    const words = (size) => (this.axis === "query" ? queryText(size) : durationText(size));
    offer(this.speedSelect, speeds.map((size) => [size, `${words(size)} per second`]), this.speed);
    this.axisSelect.value = this.axis;
  }

  choose(change) {
    Object.assign(this.chosen, change);
    this.changed();
  }

  // Update everything that depends on the selections.
  changed() {
    const { track, chosen } = this;
    const off = (lppm) => hidden.names.has(lppm.name);
    const usable = track.lppms.filter((lppm) => !off(lppm));
    const open = usable.length ? usable : track.lppms;
    this.lppm = open.find(({ title }) => title === chosen.lppm) ?? open[0];
    offer(this.lppmSelect, track.lppms.map((lppm, place) => [place, lppm.title, !open.includes(lppm)]), track.lppms.indexOf(this.lppm));
    this.marks = marksOf(track, this.lppm);
    for (const { key } of this.marks) this.layers[key] ??= true;
    this.shown = track.users.map((_, user) => user).filter((user) => !chosen.off.has(track.users[user]));
    this.followed = chosen.follow === null ? null : this.names.get(chosen.follow);
    this.followSelect.value = this.followed ?? "";
    Object.assign(this.othersSelect, { value: chosen.others, disabled: this.followed === null });
    this.userCount.textContent = `${this.shown.length} of ${track.users.length} shown`;
    for (const box of $$("input", this.userList)) box.checked = !chosen.off.has(track.users[box.value]);
    this.listLayers();
    if (this.plan) this.layOut();
    this.drawLine();
    this.draw();
  }

  // Lay out the map for the chosen zoom and the followed user.
  layOut() {
    const [width, height] = this.size;
    this.plan = layOutMap(this.track, width, height, this.chosen.zoom, this.followed ?? null);
    this.ground = null;
  }

  changeRun(run) {
    this.pause();
    Object.assign(this.chosen, { run, axis: null });
    this.moment = null;
    this.show(this.data);
  }

  // Preserve the position on the time line: the query of the followed user, or the same fraction of the range.
  changeAxis(axis) {
    const { track, followed, range } = this;
    const share = (this.moment - range.first) / (range.last - range.first || 1);
    this.axis = this.chosen.axis = axis;
    this.moment = null;
    this.readRange();
    const hasQuery = followed !== null && track.at[followed] >= track.start[followed];
    const { first, last } = this.range;
    this.goTo(hasQuery ? momentOf(track, axis, followed, track.at[followed]) : this.wholeMoment(first + share * (last - first)));
    this.drawLine();
  }

  changeSpeed(speed) {
    this.speed = this.chosen.speed[this.axis] = speed;
  }

  // ---- users

  listUsers() {
    const { track } = this;
    const listed = [...this.userList.children].map((row) => row.textContent);
    if (listed.length === track.users.length && listed.every((name, user) => name === track.users[user])) return;
    offer(this.followSelect, [["", "none"], ...track.users.map((name, user) => [user, name])], "");
    this.userList.replaceChildren(...track.users.map((name, user) => {
      const box = element("input", { type: "checkbox", value: user });
      box.addEventListener("change", () => this.showUsers([name], box.checked));
      return element("label", {}, box, name);
    }));
    this.filterUsers();
  }

  filterUsers() {
    const part = this.search.value.trim().toLowerCase();
    for (const row of this.userList.children) row.hidden = !row.textContent.toLowerCase().includes(part);
  }

  showListed(on) {
    const rows = [...this.userList.children].filter((row) => !row.hidden);
    this.showUsers(rows.map((row) => this.track.users[$("input", row).value]), on);
  }

  showUsers(names, on) {
    const { off, follow } = this.chosen;
    for (const name of names) on ? off.delete(name) : off.add(name);
    this.choose({ follow: off.has(follow) ? null : follow });
  }

  follow(name) {
    this.chosen.off.delete(name);
    this.choose({ follow: name });
  }

  stepUser(step) {
    const users = this.shown.length ? this.shown : this.track.users.map((_, user) => user);
    if (!users.length) return;
    const place = users.indexOf(this.followed ?? -1);
    const next = place < 0 ? (step > 0 ? 0 : users.length - 1) : (place + step + users.length) % users.length;
    this.follow(this.track.users[users[next]]);
  }

  // Return the user with the mark nearest to a point of the map, or null if none is near.
  userAt(x, y) {
    let [best, least] = [null, 16 ** 2];
    this.marks.forEach((mark, place) => {
      if (!this.layers[mark.key]) return;
      const [toX, toY] = this.plan.places[place];
      for (const user of place && this.plain ? [this.followed] : this.drawn) {
        const far = (toX[user] - x) ** 2 + (toY[user] - y) ** 2;
        if (far < least) [best, least] = [user, far];
      }
    });
    return best;
  }

  // ---- layers, which also serve as the legend

  listLayers() {
    const { size = 1 } = this.track.world.tiles ?? {};
    const whole = size > 1 ? `Cells (whole map: tiles of ${size} × ${size} cells)` : "Cells";
    const cells = this.track.places.grid ? whole : "Locations";
    const plain = PLAIN_LAYERS.map(([key, title]) => [key, key === "cells" ? cells : title]);
    const layers = [...this.marks.map(({ key, title }) => [key, title]), ...plain];
    const rows = layers.filter(([key]) => key !== "roads" || this.track.roads);
    const signature = JSON.stringify(rows);
    if (this.listed === signature) return;
    this.listed = signature;
    this.beliefNote = element("span", { class: "replay-why" });
    this.layerList.replaceChildren(...rows.map(([key, title]) => {
      const box = element("input", { type: "checkbox", checked: this.layers[key] });
      box.addEventListener("change", () => {
        this.layers[key] = box.checked;
        this.ground = null;
        this.draw();
      });
      if (key === "belief") this.beliefBox = box;
      const swatch = element("canvas", { class: "replay-swatch", "data-layer": key, "aria-hidden": "true" });
      return element("label", {}, box, swatch, element("span", {}, title, key === "belief" ? this.beliefNote : null));
    }));
    this.paintSwatches();
  }

  paintSwatches() {
    if (!this.colours) return;
    for (const canvas of $$("canvas", this.layerList)) {
      const ratio = devicePixelRatio;
      Object.assign(canvas, { width: 28 * ratio, height: 20 * ratio });
      const context = canvas.getContext("2d");
      context.scale(ratio, ratio);
      paintSwatch(context, canvas.dataset.layer, this.marks, this.colours);
    }
  }

  // ---- the time line

  drawLine() {
    const { track, axis, range, followed } = this;
    const share = (moment) => (moment - range.first) / (range.last - range.first || 1);
    const percent = (moment) => `${100 * share(moment)}%`;
    const parts = [];
    for (const { moment, text } of momentTicks(track, axis, range, this.ticks.clientWidth / 80)) {
      const anchor = share(moment) > 0.95 ? "end" : share(moment) < 0.05 ? "start" : "middle";
      parts.push(shape("line", { x1: percent(moment), x2: percent(moment), y1: 30, y2: 36, class: "tick" }));
      parts.push(shape("text", { x: percent(moment), y: 48, "text-anchor": anchor }, text));
    }
    if (followed !== null) {
      const path = Array.from({ length: track.queries[followed] }, (_, place) => {
        const moment = momentOf(track, axis, followed, track.start[followed] + place);
        return `M${1000 * share(moment)} 0V1`;
      });
      parts.push(shape("svg", { x: 0, y: 22, width: "100%", height: 8, viewBox: "0 0 1000 1", preserveAspectRatio: "none" },
        shape("path", { d: path.join(""), class: "query" })));
    }
    this.ticks.replaceChildren(...parts, ...this.shiftTicks(share));
  }

  // Return the ticks of the displayed users' shifts, with names where they fit.
  shiftTicks(share) {
    const { track, axis, followed, shown } = this;
    const seen = new Set(followed === null ? shown : [followed]);
    const when = ({ user, index }) => share(momentOf(track, axis, user, track.start[user] + index - 1));
    const shifts = track.shifts.filter(({ user }) => seen.has(user)).map((shift) => ({ ...shift, at: when(shift) }));
    this.ticks.classList.toggle("calm", shifts.length === 0);
    let free = -1;
    return shifts.sort((one, other) => one.at - other.at).flatMap(({ user, index, name, ends, at }) => {
      const [x, text] = [`${100 * at}%`, ends ? `${name} ends` : name];
      const title = shape("title", {}, `${text}: ${track.users[user]}, query ${index}`);
      const line = shape("line", { x1: x, x2: x, y1: 12, y2: 30, class: "shift" }, title);
      if (at < free) return [line];
      free = at + 0.15;
      return [line, shape("text", { x, y: 9, class: "shift", "text-anchor": at > 0.9 ? "end" : "start" }, text)];
    });
  }

  // ---- playing

  toggle() {
    if (this.playing) return this.pause();
    if (this.moment >= this.range.last) this.moment = this.range.first;
    this.playing = true;
    this.playButton.textContent = "Pause";
    this.playButton.setAttribute("aria-label", "Pause");
    this.words.setAttribute("aria-live", "off");
    this.last = null;
    requestAnimationFrame((now) => this.advance(now));
  }

  pause() {
    this.playing = false;
    this.playButton.textContent = "Play";
    this.playButton.setAttribute("aria-label", "Play");
    this.words.setAttribute("aria-live", "polite");
    if (!this.track) return;
    if (this.axis === "query") this.moment = Math.floor(this.moment);
    this.draw();
  }

  advance(now) {
    if (!this.playing) return;
    const passed = Math.min(now - (this.last ?? now), 250) / 1000;
    this.last = now;
    this.moment = Math.min(this.range.last, this.moment + passed * this.speed);
    if (this.moment >= this.range.last) return this.pause();
    this.draw(now);
    requestAnimationFrame((next) => this.advance(next));
  }

  goTo(moment) {
    this.moment = Math.min(this.range.last, Math.max(this.range.first, moment));
    this.draw();
  }

  // Positions on the query axis are integers.
  wholeMoment(moment) {
    return this.axis === "query" ? Math.round(moment) : moment;
  }

  jump(share) {
    this.goTo(this.wholeMoment(this.moment + share * (this.range.last - this.range.first)));
  }

  stepQuery(step) {
    this.pause();
    const users = this.followed === null ? this.shown : [this.followed];
    this.goTo(neighbourMoment(this.track, this.axis, users, this.moment, step));
  }

  // ---- drawing

  readTheme() {
    if (!this.track) return;
    const style = getComputedStyle(this.root);
    this.colours = Object.fromEntries(THEME.map((name) => [name, style.getPropertyValue(name).trim()]));
    this.colours.font = `12px ${style.fontFamily}`;
    this.still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    this.ground = this.heat = null;
    this.paintSwatches();
    this.draw();
  }

  // Fit the map to the aspect ratio of the world and the available width.
  fit() {
    const room = this.stage.clientWidth;
    if (!this.track || !room || (this.plan && this.room === room)) return;
    this.room = room;
    const aspect = this.track.width / this.track.height;
    const tallest = Math.min(900, Math.max(380, 0.75 * innerHeight));
    const widest = Math.max(200, room >= 720 ? room - 330 : room) - 2;
    const width = Math.floor(Math.min(widest, (tallest - MAP_EDGE - MAP_FOOT) * aspect + 2 * MAP_EDGE));
    const height = Math.floor((width - 2 * MAP_EDGE) / aspect) + MAP_EDGE + MAP_FOOT;
    this.column.style.width = `${Math.max(width + 2, Math.min(widest + 2, 600))}px`;
    Object.assign(this.canvas.style, { width: `${width}px`, height: `${height}px` });
    Object.assign(this.canvas, { width: width * devicePixelRatio, height: height * devicePixelRatio });
    this.size = [width, height];
    this.layOut();
    this.ground = null;
    this.drawLine();
    this.draw();
  }

  // Draw the current moment: map, position on the time line, description.
  draw(now = null) {
    if (!this.plan || !this.colours) return;
    const { track, axis, moment, marks, layers, plan, colours, followed } = this;
    seekTrack(track, axis, moment);
    const alone = followed !== null && this.chosen.others === "hidden";
    const others = alone ? [] : this.shown.filter((user) => user !== followed);
    this.drawn = followed === null ? others : [...others, followed];
    const glide = glideUsers(track, axis, moment, now !== null && !this.still ? this.speed : 0, this.drawn);
    const scene = { track, plan, marks, layers, colours, glide };
    const context = this.canvas.getContext("2d");
    context.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
    Object.assign(context, { lineJoin: "round", imageSmoothingEnabled: false });
    context.clearRect(0, 0, plan.width, plan.height);
    const belief = beliefAt(track, this.lppm, followed);
    const onTop = track.places.outlines?.closed === false; // the lines of the ground would hide shaded lines
    if (onTop) context.drawImage(this.groundCanvas(), 0, 0, plan.width, plan.height);
    context.save();
    clipToFrame(context, plan);
    if (layers.belief && belief.none === undefined) this.drawHeat(context, belief.snapshot);
    context.restore();
    if (!onTop) context.drawImage(this.groundCanvas(), 0, 0, plan.width, plan.height);
    context.save();
    // Marks at the border of the whole map may exceed it.
    if (this.chosen.zoom > 1) clipToFrame(context, plan);
    if (followed !== null) shadeReport(context, scene, followed);
    this.plain = followed !== null && this.chosen.others === "faint";
    const size = Math.min(5, Math.max(2.4, 0.13 * Math.min(plan.right, plan.down)));
    context.globalAlpha = this.plain ? 0.4 : 1;
    drawUsers(context, scene, others, { plain: this.plain, size });
    context.globalAlpha = 1;
    if (followed !== null) {
      drawUsers(context, scene, [followed], { size: 6.5, halo: true });
      nameMarks(context, scene, followed, 6.5);
    }
    context.restore();
    this.scrub.value = moment;
    if (now === null || now - (this.describedAt ?? 0) > 250) this.describe(belief, now);
    this.root.dataset.frames = ++this.frames;
  }

  groundCanvas() {
    if (!this.ground) {
      this.ground = Object.assign(document.createElement("canvas"), { width: this.canvas.width, height: this.canvas.height });
      const context = this.ground.getContext("2d");
      context.scale(devicePixelRatio, devicePixelRatio);
      drawGround(context, this.track, this.plan, this.colours, this.layers);
    }
    return this.ground;
  }

  drawHeat(context, snapshot) {
    const { track, plan, lppm } = this;
    const [colour, tile] = [this.colours[HEAT_COLOUR], tileKm(track.world, track.places)];
    if (tile === null) {
      drawBeliefs(context, track, plan, lppm, snapshot, colour);
      return;
    }
    if (this.heat?.snapshot !== snapshot || this.heat.lppm !== lppm) {
      this.heat = { snapshot, lppm, canvas: heatOf(track, lppm, snapshot, channels(context, colour)) };
    }
    // Tiles begin in the south-west corner; the last ones may exceed the map.
    const { rows, cols } = track.world.tiles;
    const [wide, high] = [cols * tile[0] * plan.scale, rows * tile[1] * plan.scale];
    const south = plan.top + plan.scale * track.height;
    context.drawImage(this.heat.canvas, plan.left, south - high, wide, high);
  }

  // Describe the current moment in text.
  describe(belief, now) {
    const { track, axis, moment, marks, followed, shown } = this;
    this.describedAt = now;
    const clock = `${clockText(track, moment)}${track.clock === "date" ? " UTC" : ""}`;
    const when = axis === "query" ? `Query ${number(Math.floor(moment))}` : clock;
    const seen = followed === null ? crowdText(track, marks, shown) : userText(track, marks, followed);
    const lines = [...seen, ...shiftText(track, followed, shown)];
    this.words.replaceChildren(element("strong", {}, when), ...lines.map((text) => element("span", {}, text)));
    this.scrub.setAttribute("aria-valuetext", when);
    this.beliefBox.disabled = belief.none !== undefined;
    this.beliefNote.textContent = belief.none ?? beliefText(track, this.lppm, followed, belief.snapshot);
  }
}
