"use strict";
// Draws the timeline: what ran when in a step. Times are in tenths of a microsecond.
(() => {
  const ROW = 20; // px
  const AXIS = ROW; // px above the first row, for moments
  const APART = 90; // px between moments, at least
  const MOST_PIXELS = 32000; // of a canvas' height: browsers leave higher ones blank, without a word
  const LEAST = 50; // shortest time in sight: 5 µs
  const [KIND, NAME, DETAIL, LINE, START, LENGTH] = [0, 1, 2, 3, 4, 5];
  const { texts, spans, rows } = JSON.parse(document.getElementById("timeline-data").textContent);
  const canvas = document.getElementById("timeline-canvas");
  const box = document.getElementById("timeline-find");
  const told = document.getElementById("timeline-told");
  const count = document.getElementById("timeline-count");
  const context = canvas.getContext("2d");
  const end = spans.reduce((most, span) => Math.max(most, span[START] + span[LENGTH]), 1);
  const lines = Array.from({ length: rows.at(-1) }, () => []);
  spans.forEach((span) => lines[span[LINE]].push(span));
  let from = 0, to = end, chosen = null, matches = null, found = [];

  const time = (tenths) => (tenths >= 1e7 ? `${(tenths / 1e7).toFixed(3)} s`
    : tenths >= 1e4 ? `${(tenths / 1e4).toPrecision(4)} ms` : `${tenths / 10} µs`);
  // To a tenth of a microsecond, however late: it tells what was before what.
  const moment = (tenths) => (tenths >= 1e7 ? `${(tenths / 1e7).toFixed(7)} s`
    : tenths >= 1e4 ? `${(tenths / 1e4).toFixed(4)} ms` : `${tenths / 10} µs`);
  // Names that are written from right to left leave the numbers beside them in their order.
  const isolated = (text) => Object.assign(document.createElement("bdi"), { textContent: text });
  // The value of a variable may be light-dark(…), which no canvas takes; that of a property is a colour.
  const ink = (name) => {
    canvas.style.color = `var(${name})`;
    return getComputedStyle(canvas).color;
  };
  const hue = (text) => [...text].reduce((sum, char) => (sum * 31 + char.codePointAt(0)) % 360, 7);
  const isDark = () => matchMedia("(prefers-color-scheme: dark)").matches
    ? document.documentElement.dataset.theme !== "light" : document.documentElement.dataset.theme === "dark";

  const draw = () => {
    const width = canvas.clientWidth, height = AXIS + rows.at(-1) * ROW;
    const scale = Math.min(devicePixelRatio || 1, MOST_PIXELS / height);
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.clearRect(0, 0, width, height);
    context.font = "12px system-ui, sans-serif";
    context.textBaseline = "middle";
    const dark = isDark() && !("printing" in document.documentElement.dataset);
    const colours = texts.map((text) => `hsl(${hue(text)} ${dark ? "35% 28%" : "60% 84%"})`);
    const text = ink("--ink"), accent = ink("--accent"), reference = ink("--reference");
    const each = width / (to - from);
    axis(width, height, each, text);
    lines.forEach((line, number) => {
      const top = AXIS + number * ROW;
      let drawn = -1; // px; what is narrower than a pixel and inside the last one is not drawn
      line.forEach((span) => {
        const left = (span[START] - from) * each, wide = span[LENGTH] * each;
        if (left + wide < 0 || left > width) return;
        const right = Math.max(left + wide, left + 0.5);
        const isMatch = matches?.has(span);
        if (right <= drawn && !isMatch && span !== chosen) return;
        drawn = Math.max(drawn, Math.floor(right + 0.5));
        context.globalAlpha = matches && !isMatch ? 0.25 : 1;
        context.fillStyle = colours[span[NAME]];
        context.fillRect(left, top, Math.max(wide - 0.5, 0.5), ROW - 1);
        if (span === chosen || isMatch) {
          context.lineWidth = span === chosen ? 2 : 1;
          context.strokeStyle = span === chosen ? accent : reference;
          context.strokeRect(left, top + 0.5, Math.max(wide - 0.5, 1), ROW - 2);
        }
        if (wide > 24) label(texts[span[NAME]], Math.max(left, 0), Math.min(left + wide, width), top, text);
      });
    });
    context.globalAlpha = 1;
    Object.assign(canvas.dataset, { from: Math.round(from), to: Math.round(to) });
  };
  // Moments, each with a line through all rows, and a line above each thread but the first.
  const axis = (width, height, each, colour) => {
    const least = APART / each, power = 10 ** Math.floor(Math.log10(least));
    const step = Math.max([1, 2, 5, 10].find((times) => times * power >= least) * power, 1);
    const [unit, name] = to >= 1e7 ? [1e7, "s"] : to >= 1e4 ? [1e4, "ms"] : [10, "µs"];
    context.fillStyle = colour;
    context.strokeStyle = ink("--line");
    context.lineWidth = 1;
    context.beginPath();
    for (let when = Math.ceil(from / step) * step; when <= to; when += step) {
      const left = Math.round((when - from) * each) + 0.5;
      context.moveTo(left, 0);
      context.lineTo(left, height);
      context.fillText(`${+(when / unit).toPrecision(12)} ${name}`, left + 3, AXIS / 2);
    }
    rows.slice(1, -1).forEach((first) => {
      context.moveTo(0, AXIS + first * ROW - 0.5);
      context.lineTo(width, AXIS + first * ROW - 0.5);
    });
    context.stroke();
  };
  const label = (name, left, right, top, colour) => {
    const room = Math.floor((right - left - 6) / 6.5);
    if (room < 3) return;
    context.fillStyle = colour;
    context.fillText(name.length > room ? `${name.slice(0, room - 1)}…` : name, left + 3, top + ROW / 2);
  };
  let waits = false;
  const redraw = () => {
    if (waits) return;
    waits = true;
    requestAnimationFrame(() => {
      waits = false;
      draw();
    });
  };

  const look = (begin, length) => {
    const wide = Math.min(Math.max(length, LEAST), end);
    from = Math.min(Math.max(begin, 0), end - wide);
    to = from + wide;
    redraw();
  };
  const zoom = (times, at = (from + to) / 2) => {
    const wide = Math.min(Math.max((to - from) * times, LEAST), end);
    look(at - ((at - from) / (to - from)) * wide, wide);
  };
  const pan = (share) => look(from + (to - from) * share, to - from);
  const all = () => look(0, end);
  const choose = (span) => {
    chosen = span;
    if (span) {
      const detail = texts[span[DETAIL]];
      told.replaceChildren(
        `${texts[span[KIND]]} `, isolated(texts[span[NAME]]),
        ` · ${time(span[LENGTH])} from ${moment(span[START])}`, onThread(span), ...(detail ? [" · ", isolated(detail)] : []),
      );
    } else {
      told.textContent = "Nothing chosen.";
    }
    if (span && (span[START] + span[LENGTH] < from || span[START] > to)) {
      look(span[START] + span[LENGTH] / 2 - (to - from) / 2, to - from);
    }
    redraw();
  };
  const goInto = (span) => span && look(span[START] - span[LENGTH] * 0.05, span[LENGTH] * 1.1);
  const at = (event) => {
    const place = canvas.getBoundingClientRect();
    const when = from + ((event.clientX - place.left) / place.width) * (to - from);
    const near = ((to - from) / place.width) * 2;
    const line = lines[Math.floor((event.clientY - place.top - AXIS) / ROW)] ?? [];
    const hit = line.filter((span) => span[START] - near <= when && when <= span[START] + span[LENGTH] + near);
    return [hit.find((span) => span[START] <= when && when <= span[START] + span[LENGTH]) ?? hit[0] ?? null, when];
  };
  const covers = (outer, inner) => outer[START] <= inner[START] + 1 && inner[START] + inner[LENGTH] <= outer[START] + outer[LENGTH] + 1;
  const thread = (line) => rows.findLastIndex((first) => first <= line);
  const onThread = (span) => (rows.length > 2 ? `, thread ${thread(span[LINE]) + 1} of ${rows.length - 1}` : "");
  const around = (span) => {
    for (let line = span[LINE] - 1; line >= rows[thread(span[LINE])]; line -= 1) {
      const outer = lines[line].find((other) => covers(other, span));
      if (outer) return outer;
    }
    return span;
  };
  const inside = (span) => {
    for (let line = span[LINE] + 1; line < rows[thread(span[LINE]) + 1]; line += 1) {
      const inner = lines[line].find((other) => covers(span, other));
      if (inner) return inner;
    }
    return span;
  };
  const beside = (span, by) => lines[span[LINE]][lines[span[LINE]].indexOf(span) + by] ?? span;

  // Of one thread, a moment counts once: spans are in one another.
  const together = (some) => {
    const counted = new Map(); // thread: until when
    return [...some].sort((one, other) => one[START] - other[START]).reduce((sum, span) => {
      const of = thread(span[LINE]), until = span[START] + span[LENGTH];
      const since = Math.max(span[START], counted.get(of) ?? span[START]);
      counted.set(of, Math.max(since, until));
      return sum + Math.max(0, until - since);
    }, 0);
  };
  const search = () => {
    const wanted = box.value.trim().toLowerCase();
    const hits = new Set(texts.flatMap((text, place) => (text.toLowerCase().includes(wanted) ? [place] : [])));
    found = wanted ? spans.filter((span) => hits.has(span[NAME]) || hits.has(span[DETAIL])) : [];
    matches = wanted ? new Set(found) : null;
    count.textContent = wanted ? `${found.length} found, ${time(together(found))} together` : "";
    redraw();
  };
  const next = (by) => {
    if (!found.length) return;
    const now = found.indexOf(chosen);
    choose(found[now < 0 ? (by > 0 ? 0 : found.length - 1) : (now + by + found.length) % found.length]);
  };

  const keys = {
    ArrowLeft: () => pan(-0.1), ArrowRight: () => pan(0.1),
    ArrowUp: () => choose(chosen ? around(chosen) : spans[0]),
    ArrowDown: () => choose(chosen ? inside(chosen) : spans[0]),
    "[": () => choose(chosen ? beside(chosen, -1) : spans[0]),
    "]": () => choose(chosen ? beside(chosen, 1) : spans[0]),
    "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2),
    Home: all, 0: all, Enter: () => goInto(chosen), Escape: () => choose(null),
    n: () => next(1), p: () => next(-1),
  };
  const byOption = ["[", "]"]; // on many keyboards of Macs
  canvas.addEventListener("keydown", (event) => {
    const isOther = event.ctrlKey || event.metaKey || (event.altKey && !byOption.includes(event.key));
    if (isOther || !keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  });
  canvas.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.shiftKey) return; // the page scrolls
    event.preventDefault();
    zoom(event.deltaY + event.deltaX > 0 ? 1.25 : 0.8, at(event)[1]);
  }, { passive: false });
  let dragged = null;
  canvas.addEventListener("pointerdown", (event) => {
    dragged = { x: event.clientX, from, moved: false };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!dragged) return;
    const by = event.clientX - dragged.x;
    dragged.moved ||= Math.abs(by) > 3;
    if (dragged.moved) look(dragged.from - (by / canvas.clientWidth) * (to - from), to - from);
  });
  canvas.addEventListener("pointerup", (event) => {
    if (dragged && !dragged.moved) choose(at(event)[0]);
    dragged = null;
  });
  canvas.addEventListener("pointercancel", () => {
    dragged = null;
  });
  canvas.addEventListener("dblclick", (event) => goInto(at(event)[0]));
  const buttons = { in: () => zoom(0.5), out: () => zoom(2), left: () => pan(-0.5), right: () => pan(0.5), all, next: () => next(1), previous: () => next(-1) };
  document.querySelectorAll("[data-timeline]").forEach((button) =>
    button.addEventListener("click", buttons[button.dataset.timeline]));
  box.addEventListener("input", search);
  box.addEventListener("keydown", (event) => {
    if (event.key === "Enter") next(event.shiftKey ? -1 : 1);
  });

  document.getElementById("timeline").hidden = false;
  canvas.style.height = `${AXIS + rows.at(-1) * ROW}px`;
  new ResizeObserver(redraw).observe(canvas);
  document.addEventListener("themechange", redraw);
  addEventListener("beforeprint", draw);
  addEventListener("afterprint", redraw);
  choose(null);
})();
