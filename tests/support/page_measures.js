// What a page looks like, for assertions; each returns what is wrong, in words.

const shown = (element) => element.checkVisibility() && element.getClientRects().length > 0;
const say = (element) => `${element.tagName} ${element.id || element.className} "${element.textContent.trim().slice(0, 40)}"`;

/** Elements that reach out of the page; what scrolls in a box of its own may be wider than it. */
const overflowing = () =>
  [...document.body.querySelectorAll("*")]
    .filter(shown)
    .filter((e) => !e.parentElement.closest(".scroll, svg") || getComputedStyle(e.closest(".scroll") ?? e).overflowX === "visible")
    .filter((e) => e.getBoundingClientRect().right > document.documentElement.clientWidth + 1 && !e.matches(".skip"))
    .map(say);

const overlap = (a, b) => {
  const [p, q] = [a.getBoundingClientRect(), b.getBoundingClientRect()];
  const wide = Math.min(p.right, q.right) - Math.max(p.left, q.left);
  const high = Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top);
  return wide > 1 && high > 1;
};
const overlapsAmong = (elements) =>
  elements.flatMap((a, n) => elements.slice(n + 1).filter((b) => overlap(a, b)).map((b) => `${say(a)} and ${say(b)}`));

/** Blocks that lie on each other, and texts of a chart that do. */
const overlaps = () => {
  const blocks = [...document.querySelectorAll("header > *, nav, section > *, .chart > *, .verdicts > *, .facts > div")];
  const leaves = blocks.filter(shown).filter((e) => !blocks.some((inner) => inner !== e && e.contains(inner)));
  const texts = [...document.querySelectorAll(".plot")].map((plot) => [...plot.querySelectorAll("text")].filter(shown));
  return [...overlapsAmong(leaves), ...texts.flatMap(overlapsAmong)];
};

/** Texts of charts that are cut off by their chart. */
const cutTexts = () =>
  [...document.querySelectorAll(".plot text")].filter((text) => text.textContent.trim() && shown(text)).filter((text) => {
    const [t, plot] = [text.getBoundingClientRect(), text.closest(".plot").getBoundingClientRect()];
    return t.left < plot.left - 1 || t.right > plot.right + 1 || t.bottom > plot.bottom + 1;
  }).map(say);

/** Charts without marks. */
const emptyCharts = () =>
  [...document.querySelectorAll(".plot")]
    .filter((plot) => plot.querySelectorAll(".main-svg .point, .main-svg .box, .main-svg .slice").length < 1)
    .map((plot) => plot.id);

/** Tables that a screen reader can't make sense of. */
const unreadableTables = () =>
  [...document.querySelectorAll("table")].flatMap((table) => {
    const columns = table.querySelectorAll("thead th[scope=col]").length;
    const rows = [...table.querySelectorAll("tbody tr")];
    return [
      ...(table.caption?.textContent.trim() ? [] : ["no caption"]),
      ...(columns && rows.length ? [] : ["no header or no row"]),
      ...(rows.every((row) => row.cells.length === columns) ? [] : ["ragged"]),
      ...(rows.every((row) => row.querySelector("th[scope=row]")) ? [] : ["a row without a header"]),
    ].map((wrong) => `${table.caption?.textContent}: ${wrong}`);
  });

const canvas = Object.assign(document.createElement("canvas"), { width: 1, height: 1 });
const brush = canvas.getContext("2d", { willReadFrequently: true });
const known = new Map();
/** A colour, painted over others, as [red, green, blue]; the first lies on top. */
const painted = (colours) => {
  const key = colours.join();
  if (!known.has(key)) known.set(key, paint(colours));
  return known.get(key);
};
const paint = (colours) => {
  brush.clearRect(0, 0, 1, 1);
  for (const colour of [...colours].reverse()) {
    brush.fillStyle = colour;
    brush.fillRect(0, 0, 1, 1);
  }
  return [...brush.getImageData(0, 0, 1, 1).data].slice(0, 3);
};
const behind = (element) => {
  // Texts of a donut and of a tree lie on their slice, which is beside them in SVG.
  const slice = element instanceof SVGElement && element.closest(".slice")?.querySelector("path");
  const colours = slice ? [getComputedStyle(slice).fill] : [];
  for (let e = element; e; e = e.parentElement) colours.push(getComputedStyle(e).backgroundColor);
  return colours;
};
const luminance = (rgb) => {
  const [r, g, b] = rgb.map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
/** The contrast of an element's text with what lies behind it, as WCAG 2 defines it. */
const contrast = (element) => {
  const style = getComputedStyle(element);
  const ink = element instanceof SVGElement ? style.fill : style.color;
  const below = behind(element);
  const [bright, dark] = [painted([ink, ...below]), painted(below)].map(luminance).sort((a, b) => b - a);
  return (bright + 0.05) / (dark + 0.05);
};
/** Texts that are hard to read, with their contrast. */
const faintTexts = (least) =>
  [...document.body.querySelectorAll("*:not(script, style, noscript)")]
    .filter((e) => [...e.childNodes].some((n) => n.nodeType === Node.TEXT_NODE && n.data.trim()))
    .filter((e) => shown(e) && contrast(e) < least)
    .map((e) => `${contrast(e).toFixed(2)}: ${say(e)}`);

/** The colours of the page, and of the text and the marks of its first chart. */
const colours = () => ({
  page: getComputedStyle(document.body).backgroundColor,
  text: getComputedStyle(document.querySelector(".plot text")).fill,
  mark: getComputedStyle(document.querySelector(".plot .point, .plot .box")).fill,
});
