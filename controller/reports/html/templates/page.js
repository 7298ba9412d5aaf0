"use strict";
// Draws the page's figures in the colours of its theme, and again for another theme or for paper.
(() => {
  const PRINTED_WIDTH = 460; // px: two side by side on landscape A4 and Letter
  const root = document.documentElement;
  const figures = JSON.parse(document.getElementById("figures").textContent);
  const probe = document.body.appendChild(document.createElement("span"));
  probe.hidden = true;

  const colour = (name) => {
    probe.style.color = name;
    return getComputedStyle(probe).color;
  };
  const themed = (value) => {
    if (typeof value === "string") return value.startsWith("var(") ? colour(value) : value;
    if (Array.isArray(value)) return value.map(themed);
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, themed(inner)]));
  };
  // Takes a second of a slow computer: not before there is something to draw. Returns what is to be
  // waited for, if the library is a file of its own.
  let loading = null;
  const load = () => {
    if (self.Plotly) return null;
    if (loading) return loading;
    const kept = document.getElementById("plotly");
    const script = document.createElement("script");
    if (kept.dataset.src) {
      loading = new Promise((resolve) => {
        script.addEventListener("load", resolve);
      });
      script.src = kept.dataset.src;
    } else {
      script.text = kept.textContent;
    }
    document.head.append(script);
    return loading;
  };
  const draw = (ids, size = { width: undefined, autosize: true }) => {
    const library = ids.length ? load() : null;
    return library ? library.then(() => drawNow(ids, size)) : drawNow(ids, size);
  };
  const drawNow = (ids, size) =>
    Promise.all(
      ids.map((id) => {
        drawn.add(id);
        const { data, layout } = figures[id];
        return Plotly.react(id, themed(data), { ...themed(layout), ...size }, {
          displayModeBar: false,
          responsive: true,
        });
      }),
    );

  // What is about to come into sight is drawn; the rest costs nothing until then.
  const drawn = new Set();
  const sight = new IntersectionObserver(
    (changes) => {
      const seen = changes.filter((change) => change.isIntersecting).map(({ target }) => target);
      seen.forEach((plot) => sight.unobserve(plot));
      root.dataset.charts = "drawing";
      draw(seen.map((plot) => plot.id)).then(() => {
        root.dataset.charts = "drawn";
      });
    },
    { rootMargin: "50% 0px" },
  );
  Object.keys(figures).forEach((id) => sight.observe(document.getElementById(id)));

  document.addEventListener("themechange", () => draw([...drawn]));
  addEventListener("beforeprint", () => {
    root.dataset.printing = "";
    draw(Object.keys(figures), { width: PRINTED_WIDTH });
  });
  addEventListener("afterprint", () => {
    delete root.dataset.printing;
    draw([...drawn]);
  });
})();
