// @ts-check
// Only while a simulation is watched: says how far it is, and brings newer figures into the page as it stands.

const LIVE_EVERY_MS = 1000;
const LIVE_SAID_EVERY_MS = 5000;
const LIVE_TRIES = 3;
const LIVE_GONE = "The simulation has ended or was stopped; this is what was there.";

// Say how far a simulation is, in a line.
function liveWords(state) {
  if (state.error) return `The simulation has ended: ${state.error}`;
  if (state.finished) return "The simulation is finished; these are all of its figures.";
  if (state.trouble) return `The simulation goes on, but its page could not be made: ${state.trouble}`;
  if (!state.total) return "The simulation begins …";
  if (state.done >= state.total) return "All is simulated and is being summed up …";
  const words = [`${state.done.toLocaleString("en")} of ${state.total.toLocaleString("en")} queries simulated`];
  if (state.chunks > 1) words.push(`${state.chunks_done} of ${state.chunks} chunks written`);
  if (state.queries_per_s) words.push(`${number(state.queries_per_s, 2)} queries/s`);
  if (state.left_s) words.push(`about ${liveDuration(state.left_s)} left`);
  return words.join(" · ");
}

function liveDuration(seconds) {
  if (seconds < 90) return `${Math.ceil(seconds)} s`;
  return seconds < 5400 ? `${Math.round(seconds / 60)} min` : `${(seconds / 3600).toFixed(1)} h`;
}

// Make a slim bar at the top, and return what sets it. Screen readers are told now and then, of an end at once.
function makeLiveBar() {
  const bar = element("progress", { max: 1, "aria-label": "simulated" });
  const words = element("p", { "aria-hidden": "true" });
  const reader = element("p", { class: "unseen", role: "status", "aria-live": "polite" });
  const place = element("div", { class: "live" }, bar, words, reader);
  document.body.prepend(place);
  let saidAt = -Infinity;
  return (text, { share = null, ended = false, failed = false } = {}) => {
    words.textContent = text;
    place.classList.toggle("ended", ended);
    place.classList.toggle("failed", failed);
    if (share === null) bar.removeAttribute("value");
    else bar.value = share;
    if (ended || performance.now() - saidAt >= LIVE_SAID_EVERY_MS) {
      reader.textContent = text;
      saidAt = performance.now();
    }
  };
}

// Put a node of another page into the place of one here, and leave open, scrolled and focused what was.
function takeOver(old, fresh) {
  const node = document.importNode(fresh, true);
  const open = $$("details", old).map((details) => details.open);
  $$("details", node).forEach((details, i) => (details.open = open[i] ?? details.open));
  const focusable = "a, button, input, select, summary, [tabindex]";
  const focused = $$(focusable, old).indexOf(document.activeElement);
  const scrolled = $$(".wide", old).map((box) => box.scrollLeft);
  old.replaceWith(node);
  return () => {
    $$(".wide", node).forEach((box, i) => (box.scrollLeft = scrolled[i] ?? 0));
    if (focused >= 0) $$(focusable, node)[focused]?.focus({ preventScroll: true });
  };
}

// What a section consists of; charts and reasons for none come and go.
const liveShape = (section) =>
  $$("[data-part], [data-chart], .map", section)
    .map((node) => node.dataset.part ?? node.dataset.chart ?? "map")
    .join();

// Put what a newer page says into this one and draw its numbers. It is only read: scripts in it do not run.
function showNewer(text) {
  const fresh = new DOMParser().parseFromString(text, "text/html");
  const [before, after] = [$("#data"), $("#data", fresh)];
  if (!after) return;
  if (!before || ($(".map", fresh) && !$(".map"))) {
    location.reload(); // there is nothing here yet that could be kept
    return;
  }
  const settle = [];
  for (const section of $$("main > section", fresh)) {
    const old = document.getElementById(section.id);
    if (liveShape(old) !== liveShape(section)) settle.push(takeOver(old, section));
  }
  for (const part of $$("[data-part]", fresh)) {
    const old = $(`[data-part="${part.dataset.part}"]`);
    if (old.innerHTML !== part.innerHTML) settle.push(takeOver(old, part));
  }
  if (before.textContent !== after.textContent) {
    before.textContent = after.textContent;
    showData(JSON.parse(after.textContent));
  } else sortableTables(document);
  for (const again of settle) again();
}

async function askServer(name) {
  const answer = await fetch(name, { cache: "no-store" });
  if (!answer.ok) throw new Error(`${answer.status}`);
  return answer.text();
}

async function watchRun() {
  const say = makeLiveBar();
  let shown = null;
  for (let failures = 0; failures < LIVE_TRIES; ) {
    let newer = null;
    try {
      const state = JSON.parse(await askServer("state.json"));
      failures = 0;
      if (state.version && state.version !== shown) newer = await askServer(".");
      if (newer !== null) shown = state.version;
      const share = state.finished ? 1 : state.total ? state.done / state.total : null;
      say(liveWords(state), { share, ended: state.finished, failed: state.error !== "" });
      if (newer !== null) showNewer(newer);
      if (state.finished) return;
    } catch (error) {
      if (newer !== null) throw error; // a fault of this page, not of the server
      failures += 1;
    }
    await new Promise((resolve) => setTimeout(resolve, LIVE_EVERY_MS));
  }
  say(LIVE_GONE, { share: 1, ended: true, failed: true });
}

watchRun();
