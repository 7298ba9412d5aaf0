"use strict";
// Light or dark: what the system asks for, until the button says otherwise.
(() => {
  const root = document.documentElement;
  root.dataset.scripts = ""; // hides what is there for those without
  const button = document.getElementById("theme");
  const system = matchMedia("(prefers-color-scheme: dark)");

  const show = (dark) => {
    button.setAttribute("aria-pressed", String(dark));
    document.dispatchEvent(new Event("themechange"));
  };
  button.addEventListener("click", () => {
    const dark = button.getAttribute("aria-pressed") !== "true";
    root.dataset.theme = dark ? "dark" : "light";
    show(dark);
  });
  system.addEventListener("change", () => {
    if (!root.dataset.theme) show(system.matches);
  });
  show(system.matches);
})();
