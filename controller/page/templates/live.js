"use strict";
// Keeps parts of a page up to date: asks again for what `data-live` names, and replaces what changed.
(() => {
  const stale = document.getElementById("stale");
  const late = new Set(); // the parts whose last question had no answer
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
        // Of the whole answer: what is shown is not current while it hangs.
        const signal = AbortSignal.timeout(Number(root.dataset.patienceMs));
        const answer = await fetch(live, { cache: "no-cache", signal });
        if (answer.redirected) {
          location.reload(); // the session has ended
          return;
        }
        if (!answer.ok) throw new Error(answer.statusText);
        show(await answer.text());
        late.delete(root);
      } catch {
        if (!late.size) {
          stale.textContent = `Not up to date since ${new Date().toLocaleTimeString()}: no answer.`;
        }
        late.add(root);
      }
      stale.hidden = !late.size;
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
