"use strict";
// Shows the rows of all tables that have a text; without one, those that were shown at first.
(() => {
  const box = document.getElementById("find");
  const rows = [...document.querySelectorAll("table tbody tr")];
  const hidden = new Set(rows.filter((row) => row.hidden));
  const texts = new Map();
  const text = (row) => {
    if (!texts.has(row)) texts.set(row, row.textContent.toLowerCase());
    return texts.get(row);
  };
  box.closest("[hidden]").hidden = false;
  box.addEventListener("input", () => {
    const wanted = box.value.trim().toLowerCase();
    rows.forEach((row) => {
      row.hidden = wanted ? !text(row).includes(wanted) : hidden.has(row);
    });
  });
})();
