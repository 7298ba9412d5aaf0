"use strict";
// Keeps parts of a page up to date: asks again for what `data-live` names, and replaces what changed.
(() => {
  const stale = document.getElementById("stale");
  const stops = "a[href], button, summary, input, [tabindex]";

  const replace = (now, fresh) => {
    const open = [...now.querySelectorAll("details[open][data-key]")].map((one) => one.dataset.key);
    const place = now.contains(document.activeElement)
      ? [...now.querySelectorAll(stops)].indexOf(document.activeElement)
      : -1;
    now.replaceWith(fresh);
    fresh.querySelectorAll("details[data-key]").forEach((one) => {
      one.open = open.includes(one.dataset.key);
    });
    if (place >= 0) fresh.querySelectorAll(stops)[place]?.focus({ preventScroll: true });
  };

  const follow = (root) => {
    const { live, everyMs } = root.dataset;
    const said = new Map();
    let before = "";
    const show = (text) => {
      if (text === before) return;
      before = text;
      const found = new DOMParser().parseFromString(text, "text/html");
      found.querySelectorAll("[data-part]").forEach((fresh) => {
        if (said.get(fresh.id) === fresh.outerHTML) return;
        said.set(fresh.id, fresh.outerHTML);
        const now = document.getElementById(fresh.id);
        if (!now) root.append(document.adoptNode(fresh));
        else if (now.outerHTML !== fresh.outerHTML) replace(now, document.adoptNode(fresh));
      });
      root.dataset.updates = Number(root.dataset.updates ?? 0) + 1;
    };
    const ask = async () => {
      try {
        const answer = await fetch(live, { cache: "no-cache" });
        if (answer.redirected) {
          location.reload(); // the session has ended
          return;
        }
        if (!answer.ok) throw new Error(answer.statusText);
        show(await answer.text());
        stale.hidden = true;
      } catch {
        if (stale.hidden) {
          stale.textContent = `Not up to date since ${new Date().toLocaleTimeString()}: no answer.`;
        }
        stale.hidden = false;
      }
    };
    const visible = () =>
      document.hidden
        ? new Promise((resolve) => {
            document.addEventListener("visibilitychange", resolve, { once: true });
          })
        : null;
    const go = async () => {
      for (;;) {
        await visible();
        await ask();
        await new Promise((resolve) => {
          setTimeout(resolve, Number(everyMs));
        });
      }
    };
    go();
  };
  document.querySelectorAll("[data-live]").forEach(follow);
})();
