// @ts-check
// Live view only: shows the progress of the simulation and updates the page with newer results.

const LIVE_EVERY_MS = 1000;
const LIVE_ANNOUNCE_EVERY_MS = 5000;
const LIVE_TRIES = 3;
const LIVE_GONE = "The simulation has ended or was stopped; the page shows its last results.";

// Return the progress of a simulation in one line.
function liveText(state) {
  if (state.error) return `The simulation has ended: ${state.error}`;
  if (state.finished) return "The simulation is finished; the page shows the final results.";
  if (state.trouble) return `The simulation is running, but the page could not be updated: ${state.trouble}`;
  if (!state.total) return "The simulation is starting …";
  if (state.done >= state.total) return "All queries are simulated; computing the results …";
  const parts = [`${state.done.toLocaleString("en")} of ${state.total.toLocaleString("en")} queries simulated`];
  if (state.chunks > 1) parts.push(`${state.chunks_done} of ${state.chunks} chunks written`);
  if (state.queries_per_s) parts.push(`${number(state.queries_per_s, 2)} queries/s`);
  if (state.left_s) parts.push(`about ${liveDuration(state.left_s)} left`);
  return parts.join(" · ");
}

function liveDuration(seconds) {
  if (seconds < 90) return `${Math.ceil(seconds)} s`;
  return seconds < 5400 ? `${Math.round(seconds / 60)} min` : `${(seconds / 3600).toFixed(1)} h`;
}

// Create a progress bar at the top and return its setter. Screen readers get updates at intervals, the end immediately.
function makeLiveBar() {
  const bar = element("progress", { max: 1, "aria-label": "Simulation progress" });
  const words = element("p", { "aria-hidden": "true" });
  const reader = element("p", { class: "unseen", role: "status", "aria-live": "polite" });
  const place = element("section", { class: "live", "aria-label": "Progress" }, bar, words, reader);
  document.body.prepend(place);
  let announcedAt = -Infinity;
  return (text, { share = null, ended = false, failed = false } = {}) => {
    words.textContent = text;
    place.classList.toggle("ended", ended);
    place.classList.toggle("failed", failed);
    if (share === null) bar.removeAttribute("value");
    else bar.value = share;
    if (ended || performance.now() - announcedAt >= LIVE_ANNOUNCE_EVERY_MS) {
      reader.textContent = text;
      announcedAt = performance.now();
    }
  };
}

// Replace a node by one of a newer page, and preserve open details, scroll positions and focus.
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

// Return the parts of a section; charts may appear or disappear in newer pages.
const liveShape = (section) =>
  $$("[data-part], [data-chart], .map", section)
    .map((node) => node.dataset.part ?? node.dataset.chart ?? "map")
    .join();

// Update this page from a newer one and draw its data. The newer page is only parsed: its scripts do not run.
function showNewer(text) {
  const fresh = new DOMParser().parseFromString(text, "text/html");
  const [before, after] = [$("#data"), $("#data", fresh)];
  if (!after) return;
  if (!before || ($(".map", fresh) && !$(".map"))) {
    location.reload(); // this page has no state to preserve yet
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
  const report = makeLiveBar();
  let shown = null;
  for (let failures = 0; failures < LIVE_TRIES; ) {
    let newer = null;
    try {
      const state = JSON.parse(await askServer("state.json"));
      failures = 0;
      if (state.version && state.version !== shown) newer = await askServer(".");
      if (newer !== null) shown = state.version;
      const share = state.finished ? 1 : state.total ? state.done / state.total : null;
      report(liveText(state), { share, ended: state.finished, failed: state.error !== "" });
      if (newer !== null) showNewer(newer);
      if (state.finished) return;
    } catch (error) {
      if (newer !== null) throw error; // an error in this page, not of the server
      failures += 1;
    }
    await new Promise((resolve) => setTimeout(resolve, LIVE_EVERY_MS));
  }
  report(LIVE_GONE, { share: 1, ended: true, failed: true });
}

watchRun();
