// @ts-check
// Entry point: draw everything from the embedded data, and again when newer data arrive.

const replay = $(".map") ? makeReplay($(".map")) : null;

function showData(data) {
  drawCharts(data);
  sortableTables(document);
  replay?.show(data);
}

function followSections() {
  const links = new Map($$("nav a").map((link) => [link.hash.slice(1), link]));
  const seen = new IntersectionObserver(
    (entries) => {
      for (const entry of entries.filter((observed) => observed.isIntersecting)) {
        for (const link of links.values()) link.removeAttribute("aria-current");
        links.get(entry.target.id)?.setAttribute("aria-current", "true");
      }
    },
    { rootMargin: "-20% 0px -75% 0px" },
  );
  for (const section of $$("main > section")) seen.observe(section);
}

showData(JSON.parse($("#data").textContent));
followSections();
