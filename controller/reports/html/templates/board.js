"use strict";
// Shows the rows of rankings that fit what is chosen; a ranking without any is hidden.
(() => {
  const form = document.getElementById("filters");
  if (!form) return;
  const [find, task, device, ranked, count] = ["find", "task", "device", "ranked", "count"].map(
    (id) => document.getElementById(id),
  );
  const rankings = [...document.querySelectorAll("section.task")].map((section) => ({
    section,
    rows: [...section.querySelectorAll("tbody tr")],
  }));
  const texts = new Map();
  const text = (row) => {
    if (!texts.has(row)) texts.set(row, row.textContent.toLowerCase());
    return texts.get(row);
  };
  const show = () => {
    const wanted = find.value.trim().toLowerCase();
    const fits = (row) =>
      (!device.value || row.dataset.device === device.value) &&
      (!ranked.checked || "ranked" in row.dataset) &&
      (!wanted || text(row).includes(wanted));
    let shown = 0;
    let all = 0;
    rankings.forEach(({ section, rows }) => {
      const isChosen = !task.value || section.id === task.value;
      rows.forEach((row) => {
        row.hidden = !(isChosen && fits(row));
      });
      const left = rows.filter((row) => !row.hidden).length;
      section.hidden = left === 0;
      shown += left;
      all += rows.length;
    });
    count.textContent = `${shown} of ${all} rows`;
  };
  form.hidden = false;
  form.addEventListener("input", show);
  form.addEventListener("submit", (event) => event.preventDefault());
  document.getElementById("all").addEventListener("click", () => {
    form.reset();
    show();
  });
  show(); // a browser may give back what was chosen before
})();
