"use strict";
// Shows the rows of all tables that have a text; without one, those that were shown at first.
(() => {
  const box = document.getElementById("find");
  const count = document.getElementById("find-count");
  const rows = [...document.querySelectorAll("table tbody tr")];
  const hidden = new Set(rows.filter((row) => row.hidden));
  const texts = new Map();
  const text = (row) => {
    if (!texts.has(row)) {
      const whole = [...row.querySelectorAll("[title]")].map((name) => name.title); // of shortened ones
      texts.set(row, [row.textContent, ...whole].join("\n").toLowerCase());
    }
    return texts.get(row);
  };
  box.closest("[hidden]").hidden = false;
  box.addEventListener("input", () => {
    const wanted = box.value.trim().toLowerCase();
    rows.forEach((row) => {
      row.hidden = wanted ? !text(row).includes(wanted) : hidden.has(row);
    });
    const found = rows.filter((row) => !row.hidden).length;
    count.textContent = wanted ? `${found} ${found === 1 ? "row" : "rows"} found` : "";
  });
})();

// Goes through the tree without a mouse: into a frame that is chosen from a list, and out.
(() => {
  if (!document.getElementById("tree-tools")) return;
  const LONGEST = 80; // characters of a name
  const root = document.documentElement;
  const plot = document.getElementById("tree");
  const list = document.getElementById("tree-list");
  const [into, out] = ["tree-in", "tree-out"].map((id) => document.getElementById(id));
  const told = document.getElementById("tree-told");
  const [{ ids, parents, labels, text }] = JSON.parse(document.getElementById("figures").textContent).tree.data;
  // Names are escaped for the library, which draws some HTML.
  const plain = (name) => new DOMParser().parseFromString(name, "text/html").documentElement.textContent;
  // Isolated: names that are written from right to left leave the times in their order.
  const names = labels.map((label, place) => `\u2068${plain(label).slice(0, LONGEST)}\u2069, ${text[place]}`);
  const parentOf = new Map(ids.map((id, place) => [id, parents[place]]));
  const places = new Map(ids.map((id, place) => [id, place]));
  const inside = new Map();
  ids.forEach((id, place) => inside.set(parents[place], [...(inside.get(parents[place]) ?? []), id]));
  let now = ids[0];

  const show = (id) => {
    now = places.has(id) ? id : ids[0];
    const frames = inside.get(now) ?? [];
    list.replaceChildren(...frames.map((frame) => new Option(names[places.get(frame)], frame)));
    list.disabled = into.disabled = !frames.length;
    out.disabled = now === ids[0];
    told.textContent = `In ${names[places.get(now)]}: ${frames.length} ${frames.length === 1 ? "frame" : "frames"}`;
  };
  const go = (id) => {
    show(id);
    if (plot.data) Plotly.restyle(plot, { level: now });
    if (document.activeElement === document.body) list.focus(); // its button became disabled
  };
  into.addEventListener("click", () => list.value && go(list.value));
  out.addEventListener("click", () => now !== ids[0] && go(parentOf.get(now)));

  let heard = false;
  new MutationObserver(() => {
    if (heard || !plot.on) return;
    heard = true;
    if (now !== ids[0]) go(now);
    plot.on("plotly_icicleclick", ({ nextLevel }) => show(nextLevel ?? now));
  }).observe(root, { attributeFilter: ["data-charts"] });
  // The tree is drawn anew, and begins at its root.
  document.addEventListener("themechange", () => show(ids[0]));
  addEventListener("afterprint", () => show(ids[0]));
  document.getElementById("tree-tools").hidden = false;
  show(ids[0]);
})();
