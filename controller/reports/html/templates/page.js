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
  const draw = (size = { width: undefined, autosize: true }) =>
    Promise.all(
      Object.entries(figures).map(([id, { data, layout }]) =>
        Plotly.react(id, themed(data), { ...themed(layout), ...size }, {
          displayModeBar: false,
          responsive: true,
        }),
      ),
    );

  document.addEventListener("themechange", () => draw());
  addEventListener("beforeprint", () => {
    root.dataset.printing = "";
    draw({ width: PRINTED_WIDTH });
  });
  addEventListener("afterprint", () => {
    delete root.dataset.printing;
    draw();
  });
  draw().then(() => {
    root.dataset.charts = "drawn";
  });
})();
