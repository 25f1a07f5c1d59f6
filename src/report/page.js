"use strict";
(() => {
const report = JSON.parse(document.getElementById("data").textContent);
const totals = report.totals;
const byId = id => document.getElementById(id);

// Elements. Text is only ever set as text: names of tensors come from files.
const fill = (node, attributes, children) => {
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value === undefined || value === null || value === false) continue;
    node.setAttribute(key, value === true ? "" : value);
  }
  node.append(...children.filter(child => child !== null && child !== undefined));
  return node;
};
const el = (tag, attributes, ...children) =>
  fill(document.createElement(tag), attributes, children);
const svg = (tag, attributes, ...children) =>
  fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
// Styles are set by the program: the page works where inline styles are forbidden.
const styled = (node, style) => { Object.assign(node.style, style); return node; };

// Text from files on one line: what would end it or turn its direction is escaped, as in the
// other texts of a report.
const unseen = /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;
const line = text => text.replace(unseen, c => {
  const code = c.charCodeAt(0), hex = digits => code.toString(16).padStart(digits, "0");
  return c === "\n" ? "\\n" : code < 0x80 ? `\\x${hex(2)}` : code < 0x100 ? `\\xc2\\x${hex(2)}` : `\\u${hex(4)}`;
});
// A name, which may be cut into lines behind its dots.
const named = text => el("bdi", {},
  ...line(text).split(".").flatMap((part, i) => i > 0 ? [".", el("wbr"), part] : [part]));

// Figures, as in the other texts of a report.
const commas = number => number.toLocaleString("en-US");
const bytes = number => {
  if (number < 1024) return `${Math.round(number)} B`;
  const units = ["KiB", "MiB", "GiB", "TiB", "PiB"];
  let unit = 0;
  number /= 1024;
  while (number >= 1024 && unit + 1 < units.length) { number /= 1024; ++unit; }
  return `${number.toFixed(1)} ${units[unit]}`;
};
const times = ratio => ratio > 0 ? `${ratio.toFixed(ratio < 100 ? 2 : 0)}\u00d7` : "\u2013";
// Never all or nothing by rounding alone.
const percent = share => share < 1 && share > .9995 ? "99.9 %" : share > 0 && share < .0005 ? "< 0.1 %" :
  `${(100 * share).toFixed(1)} %`;
const change = (before, after) => {
  if (before === after) return "the same size";
  const word = after < before ? "smaller" : "larger";
  if (before === 0 || after === 0) return word;
  return `${before < 1.01 * after ? percent(Math.abs(after / before - 1)) : times(before / after)} ${word}`;
};
const short = number => {
  if (number === null) return "\u221e";
  if (number === 0) return "0";
  const size = Math.abs(number);
  return size < 1e-4 || size >= 1e6 ? number.toExponential(2) : String(Number(number.toPrecision(3)));
};
const seconds = s => s < 10 ? `${s.toFixed(2)} s` : s < 60 ? `${s.toFixed(1)} s` :
  s < 3600 ? `${Math.floor(s / 60)}:${String(Math.floor(s % 60)).padStart(2, "0")} min` :
  `${Math.floor(s / 3600)}:${String(Math.floor(s / 60 % 60)).padStart(2, "0")} h`;
// JSON has no infinity: an SQNR of null is one, plus if there is no error.
const decibels = (db, squares) =>
  db === null ? (squares > 0 || squares === null ? "\u2212\u221e" : "exact") : `${db.toFixed(1)} dB`;
const plural = (count, word) => `${commas(count)} ${word}${count === 1 ? "" : "s"}`;

const elements = tensor => tensor.shape.reduce((product, extent) => product * extent, 1);
const place = (shape, index) => {
  const at = [];
  for (const extent of [...shape].reverse()) { at.unshift(index % extent); index = Math.floor(index / extent); }
  return `[${at.join(", ")}]`;
};
const sqnr = tensor => !tensor.error ? undefined :
  tensor.error.sqnr_db === null ? (tensor.error.sum_error_squared === 0 ? Infinity : -Infinity) : tensor.error.sqnr_db;

// Lists by the text that `key` gives, in the order of their first members.
const gather = (list, key) => {
  const found = new Map();
  for (const item of list) {
    const text = key(item);
    if (!found.has(text)) found.set(text, []);
    found.get(text).push(item);
  }
  return [...found];
};
// Names that differ by numbers only are counted among the places they have: 2 comes before 10.
const collator = new Intl.Collator("en", {numeric: true});
const counted = (list, name) => {
  const ordered = [...list];
  for (const [, places] of gather([...list.keys()], i => name(list[i]).replace(/\d+/g, "0"))) {
    const sorted = places.map(i => list[i]).sort((a, b) => collator.compare(name(a), name(b)));
    places.forEach((place, i) => { ordered[place] = sorted[i]; });
  }
  return ordered;
};
const layer = tensor => tensor.layer;
const tensors = counted(gather(report.tensors, layer), ([name]) => name)
  .flatMap(([, list]) => counted(list, tensor => tensor.name));

// The first screen
const hero = () => {
  byId("tool").textContent = `report of ${line(report.tool)}`;
  const after = report.output.bytes, before = report.source.bytes;
  const sizes = `${bytes(before)} \u2192 ${bytes(after)}`;
  byId("headline").append(...totals.compressed > 0 ? [`${change(before, after)} `, el("small", {}, sizes)] :
    ["Nothing was compressed ", el("small", {}, `${sizes}, ${change(before, after)}`)]);
  byId("paths").append(el("bdi", {}, line(report.source.path)), " \u2192 ", el("bdi", {}, line(report.output.path)));
  const largest = Math.max(before, after, 1);
  const bar = (cls, size, text) => el("div", {class: `bar ${cls}`},
    styled(el("i"), {width: `max(2px, calc((100% - var(--label)) * ${size / largest}))`}), el("span", {}, text));
  byId("scale").append(
    bar("", before, `${commas(before)} bytes ${report.source.format}`),
    bar("now", after, `${commas(after)} bytes ${report.output.format}`));
  const facts = byId("facts");
  const fact = (name, value, note) => facts.append(
    el("div", {}, el("dt", {}, name), el("dd", {class: value.length > 14 ? "long" : ""}, value, note ? el("small", {}, note) : null)));
  const share = totals.parameters > 0 ? totals.compressed_parameters / totals.parameters : 0;
  fact("parameters compressed", percent(share),
       `${commas(totals.compressed_parameters)} of ${commas(totals.parameters)}`);
  fact("bits per weight", totals.bits_per_weight.toFixed(2), "all bytes on disk");
  if (totals.compressed > 0) {
    const squares = tensors.reduce((sum, t) => sum + (t.error ? t.error.sum_error_squared ?? Infinity : 0), 0);
    fact("SQNR of the weights", decibels(totals.sqnr_db, squares), `RMSE ${short(totals.rmse)}`);
    fact("zeros", percent(totals.compressed_parameters > 0 ? totals.zeros / totals.compressed_parameters : 0),
         "of compressed weights");
  }
  const kinds = ["kept", "aliased", "dropped"].filter(kind => totals[kind] > 0);
  fact("tensors", commas(totals.tensors),
       [`${commas(totals.compressed)} compressed`, ...kinds.map(kind => `${commas(totals[kind])} ${kind}`)].join(", "));
  if (report.seconds > 0) {
    fact("time", seconds(report.seconds), `${bytes(totals.bytes_per_second)}/s of the source`);
  }
  for (const {name, value} of report.facts) fact(line(name), line(value));
  for (const warning of report.warnings) byId("warnings").append(el("li", {}, line(warning)));
};

// Groups: by layer, or by what a tensor is in its layer
const groupBy = key => counted(gather(tensors, key), ([name]) => name).map(([name, list]) => {
  const group = {name, tensors: list, before: 0, after: 0};
  let error = 0, signal = 0;
  for (const tensor of list) {
    group.before += tensor.bytes_before;
    group.after += tensor.bytes_after;
    if (!tensor.error) continue;
    error += tensor.error.sum_error_squared ?? Infinity;
    signal += tensor.error.sum_squared_before;
  }
  if (list.some(tensor => tensor.error)) {
    group.sqnr = error === 0 ? Infinity : signal === 0 ? -Infinity : 10 * Math.log10(signal / error);
  }
  return group;
});
const kind = tensor => {
  const rest = tensor.name.startsWith(`${tensor.layer}.`) ? tensor.name.slice(tensor.layer.length + 1) : tensor.name;
  const numbered = /(^|\.)\d+$/.test(tensor.layer);
  return (numbered ? rest : tensor.name).replace(/(^|\.)\d+(?=\.|$)/g, "$1*");
};

const showGroups = by => {
  const box = byId("groups");
  box.replaceChildren();
  const groups = groupBy(by === "layer" ? layer : kind);
  const most = Math.max(1, ...groups.map(group => Math.max(group.before, group.after)));
  const known = groups.map(group => group.sqnr).filter(Number.isFinite);
  // Few ticks: they have room for "dB" on a phone, too.
  const least = Math.min(...known, 0), greatest = Math.max(...known, 20);
  const step = [10, 20, 50, 100, 200, 500].find(size => greatest - least <= 3 * size) || 1000;
  const low = Math.floor(least / step) * step, high = Math.ceil(greatest / step) * step;
  const at = db => 100 * (Math.min(Math.max(db, low), high) - low) / (high - low);
  // The worst tenth, and at least one of several.
  const ordered = [...known].sort((a, b) => a - b);
  const limit = ordered.length > 2 ? ordered[Math.max(0, Math.ceil(ordered.length / 10) - 1)] : -Infinity;
  const ticks = el("div", {class: "ticks"});
  for (let db = low; db <= high; db += step) {
    ticks.append(styled(el("span", {}, `${db} dB`), {left: `${at(db)}%`}));
  }
  box.append(el("div", {class: "axis", "aria-hidden": "true"},
    el("span", {}, by === "layer" ? "layer" : "kind"), el("span", {}, "size"), el("span"), ticks,
    el("span", {class: "db"}, "SQNR")));
  const key = (cls, text) => el("span", {}, el("i", {class: cls}), text);
  byId("legend").replaceChildren(key("before", "bytes before"), key("after", "bytes after"),
    ...known.length > 0 ? [key("dot", "SQNR: higher is better")] : [],
    ...known.some(db => db <= limit) ? [key("dot bad", "the lowest tenth, at least one")] : []);
  for (const group of groups) {
    const bad = group.sqnr <= limit;
    const dots = styled(el("span", {class: "dots"}), {});
    dots.style.setProperty("--step", `${100 * step / (high - low)}%`);
    if (group.sqnr !== undefined) {
      dots.append(styled(el("i", {class: bad ? "bad" : ""}), {left: `${at(group.sqnr)}%`}));
    }
    const text = group.sqnr === undefined ? "" : Number.isFinite(group.sqnr) ? `${group.sqnr.toFixed(1)} dB` :
      group.sqnr > 0 ? "exact" : "\u2212\u221e";
    const row = el("button", {type: "button", class: "group", "aria-pressed": "false",
      title: `${line(group.name)}\n${plural(group.tensors.length, "tensor")}, ${commas(group.before)} \u2192 ${commas(group.after)} bytes`},
      el("span", {class: "name"}, el("bdi", {}, line(group.name))),
      el("span", {class: "sizes"},
        styled(el("i"), {width: `${100 * group.before / most}%`}),
        styled(el("i"), {width: `${100 * group.after / most}%`, display: group.after > 0 ? "" : "none"})),
      el("span", {class: "bytes"}, `${bytes(group.before)} \u2192 `, el("b", {}, group.after > 0 ? bytes(group.after) : "0 B")),
      dots, el("span", {class: `db${bad ? " bad" : ""}`}, text));
    row.addEventListener("click", () => {
      const chosen = row.getAttribute("aria-pressed") === "true";
      for (const other of box.querySelectorAll(".group")) other.setAttribute("aria-pressed", "false");
      row.setAttribute("aria-pressed", String(!chosen));
      view.only = chosen ? null : new Set(group.tensors);
      showTable();
      if (!chosen) choose(worstOf(group.tensors));
    });
    box.append(row);
  }
};

const showOutside = () => {
  const parts = [["source", "bytes_before"], ["output", "bytes_after"]].map(([file, key]) => {
    const all = report[file].bytes, left = tensors.reduce((rest, tensor) => rest - tensor[key], all);
    return left > all / 100 ? `${commas(left)} bytes of the ${file} (${percent(left / all)})` : "";
  }).filter(Boolean);
  if (parts.length > 0) byId("outside").textContent = `${parts.join(" and ")} are outside tensors: headers, manifest, padding.`;
};

// The table
const storedAs = tensor => tensor.action === "compressed" ? line(tensor.scheme) : tensor.action;
const columns = [
  {name: "tensor", text: true, cls: "name", value: t => t.name, show: t => named(t.name), title: t => line(t.name)},
  {name: "stored as", text: true, cls: "scheme", value: storedAs, show: storedAs, title: t => line(t.scheme)},
  {name: "before", value: t => t.bytes_before, show: t => bytes(t.bytes_before), title: t => `${commas(t.bytes_before)} bytes`},
  {name: "after", value: t => t.bytes_after, show: t => bytes(t.bytes_after), title: t => `${commas(t.bytes_after)} bytes`},
  {name: "ratio", value: t => t.ratio, show: t => times(t.ratio)},
  {name: "zeros", value: t => t.error ? t.sparsity : undefined, show: t => percent(t.sparsity)},
  {name: "SQNR", value: sqnr, show: t => decibels(t.error.sqnr_db, t.error.sum_error_squared)},
  {name: "RMSE", value: t => t.error ? t.error.rmse ?? Infinity : undefined, show: t => short(t.error.rmse)},
  {name: "max error", value: t => t.error ? t.error.max_error ?? Infinity : undefined, show: t => short(t.error.max_error)},
  {name: "shape", value: elements, show: t => t.shape.join(" \u00d7 ") || "scalar"},
  {name: "from", text: true, value: t => t.dtype, show: t => line(t.dtype)},
];
const view = {column: null, descending: false, text: "", only: null, rows: 300, chosen: null};

const shown = () => {
  const words = view.text.toLowerCase();
  const list = tensors.filter(t => (!view.only || view.only.has(t)) &&
    (!words || `${t.name}\n${t.scheme}\n${t.rule}\n${t.action}\n${t.dtype}`.toLowerCase().includes(words)));
  if (view.column) {
    const {value, text} = view.column, sign = view.descending ? -1 : 1;
    const keyed = list.map(t => [value(t), t]);
    // Tensors without the figure come last either way.
    keyed.sort(([a], [b]) => a === undefined || b === undefined ? (a === undefined) - (b === undefined) :
      sign * (text ? collator.compare(a, b) : a < b ? -1 : a > b ? 1 : 0));
    return keyed.map(([, t]) => t);
  }
  return list;
};

const rows = () => [...byId("table").tBodies[0].rows];
const rowOf = tensor => rows().find(row => row.tensor === tensor);
// One row is a stop of the Tab key; from there the arrows, Home and End move on.
const rove = to => { for (const row of rows()) row.tabIndex = row === to ? 0 : -1; };
// Moves the table, not the page.
const reveal = row => {
  const box = row.closest(".scroll"), top = row.offsetTop - byId("table").tHead.offsetHeight;
  const seen = top >= box.scrollTop && row.offsetTop + row.offsetHeight <= box.scrollTop + box.clientHeight;
  if (!seen) box.scrollTop = top;
};

const showTable = () => {
  const list = shown();
  const body = document.createDocumentFragment();
  for (const tensor of list.slice(0, view.rows)) {
    const row = el("tr", {class: tensor.action, "aria-selected": String(tensor === view.chosen)});
    for (const column of columns) {
      const known = column.value(tensor) !== undefined;
      const cell = el("td", {class: `${column.text ? "text" : ""} ${column.cls || ""} ${known ? "" : "none"}`.trim()},
        known ? column.show(tensor) : "");
      if (column.title) cell.title = column.title(tensor);
      row.append(cell);
    }
    row.addEventListener("click", () => choose(tensor, true));
    row.tabIndex = -1;
    row.tensor = tensor;
    body.append(row);
  }
  byId("table").tBodies[0].replaceChildren(body);
  rove(rowOf(view.chosen) || rows()[0]);
  const more = byId("more");
  more.replaceChildren();
  const narrowed = list.length < tensors.length;
  more.append(narrowed ? `${commas(list.length)} of ${plural(tensors.length, "tensor")}` : plural(tensors.length, "tensor"));
  if (list.length > view.rows) {
    const all = el("button", {type: "button", class: "quiet"}, "show all");
    all.addEventListener("click", () => { view.rows = Infinity; showTable(); });
    more.append(`, the first ${view.rows} shown `, all);
  }
  if (narrowed) {
    const clear = el("button", {type: "button", class: "quiet"}, "show every tensor");
    clear.addEventListener("click", () => {
      view.only = null;
      view.text = byId("filter").value = "";
      for (const row of byId("groups").querySelectorAll(".group")) row.setAttribute("aria-pressed", "false");
      showTable();
    });
    more.append(" ", clear);
  }
};

// Rows by the keyboard: arrows, Home and End move, Enter and the space bar choose.
byId("table").addEventListener("keydown", event => {
  const row = event.target.closest("tbody tr");
  if (!row || event.target !== row) return;
  const next = {ArrowDown: row.nextElementSibling, ArrowUp: row.previousElementSibling,
    Home: row.parentElement.firstElementChild, End: row.parentElement.lastElementChild}[event.key];
  if (next) { rove(next); next.focus(); }
  if (event.key === "Enter" || event.key === " ") choose(row.tensor, true);
  if (next || event.key === " ") event.preventDefault();
});

const tableHead = () => {
  const head = el("tr");
  for (const column of columns) {
    const button = el("button", {type: "button"}, column.name);
    const cell = el("th", {scope: "col", class: column.text ? "text" : "", "aria-sort": "none"}, button);
    button.addEventListener("click", () => {
      view.descending = view.column === column ? !view.descending : !column.text && column.name !== "SQNR";
      view.column = column;
      for (const other of head.children) other.setAttribute("aria-sort", "none");
      cell.setAttribute("aria-sort", view.descending ? "descending" : "ascending");
      showTable();
    });
    head.append(cell);
  }
  byId("table").tHead.append(head);
};

// The chosen tensor
const histogram = ({counts, low, high}, cls, label) => {
  const width = 320, height = 92, base = 78;
  const ordered = [...counts].sort((a, b) => b - a);
  const sum = counts.reduce((a, b) => a + b, 0) || 1;
  // One bin that towers over all others (zeros of a pruned tensor) is cut, and says so.
  const cut = ordered.length > 2 && ordered[1] > 0 && ordered[0] > 2.5 * ordered[1];
  const top = Math.max(1, cut ? 1.35 * ordered[1] : ordered[0]);
  const step = width / counts.length, gap = step > 3 ? Math.min(1.2, step / 5) : 0;
  const size = (high - low) / counts.length;
  // Codes are whole numbers: a bin has one or some of them, and `high` is none.
  const codes = cls === "codes" && Number.isInteger(size) && Number.isInteger(low);
  const bin = i => {
    const from = low + size * i;
    return !codes ? `${short(from)} to ${short(from + size)}` : size === 1 ? String(from) : `${from} to ${from + size - 1}`;
  };
  const picture = svg("svg", {viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label});
  const bars = svg("g", {class: `bars ${cls}`});
  counts.forEach((count, i) => {
    if (count === 0) return;
    const tall = Math.max(1, (base - 10) * Math.min(count, top) / top);
    bars.append(svg("rect", {class: "hit", x: (i * step + gap / 2).toFixed(2), y: (base - tall).toFixed(2),
      width: Math.max(.6, step - gap).toFixed(2), height: tall.toFixed(2)},
      svg("title", {}, `${bin(i)}: ${percent(count / sum)}`)));
  });
  picture.append(bars);
  if (cut) {
    const i = counts.indexOf(ordered[0]), x = (i + .5) * step;
    const reach = Math.max(4, step / 2 + 2);
    picture.append(svg("path", {class: "cut", fill: "none", d: `M${x - reach} 19l${2 * reach} -4`}),
      svg("text", {x: x + (x > width / 2 ? -reach - 3 : reach + 3), y: 17, "text-anchor": x > width / 2 ? "end" : "start"},
        percent(ordered[0] / sum)));
  }
  picture.append(svg("path", {class: "base", d: `M0 ${base + .5}H${width}`}));
  const mark = (value, x, anchor) => picture.append(svg("text", {x, y: base + 12, "text-anchor": anchor}, short(value)));
  if (codes) {
    // Under the middle of the bar that has the code.
    for (const code of new Set([low, ...low < 0 && high > 0 ? [0] : [], high - 1])) {
      mark(code, (Math.floor((code - low) / size) + .5) * step, "middle");
    }
    return picture;
  }
  mark(low, 0, "start");
  mark(high, width, "end");
  if (low < 0 && high > 0) mark(0, width * -low / (high - low), "middle");
  return picture;
};

// The box has the shape of the matrix, the first extent by all others, up to 4 : 1.
const thumbnail = ({shape, nonzeros: {rows, cols, density}}) => {
  const canvas = el("canvas", {width: cols, height: rows, role: "img", "aria-label": "share of weights left, by place"});
  const tall = shape.length > 1 ? shape[0] : 1, wide = shape.reduce((product, extent) => product * extent, 1) / tall;
  const ratio = Math.min(4, Math.max(1 / 4, wide / tall));
  styled(canvas, {width: `${10.5 * Math.min(1, ratio)}rem`, aspectRatio: String(ratio)});
  const paint = () => {
    const style = getComputedStyle(document.documentElement);
    const rgb = name => style.getPropertyValue(name).trim().match(/[\da-f]{2}/gi).map(pair => parseInt(pair, 16));
    const none = rgb("--paper"), all = rgb("--after");
    const context = canvas.getContext("2d");
    const image = context.createImageData(cols, rows);
    for (let i = 0; i < rows * cols; ++i) {
      const share = parseInt(density.substr(2 * i, 2), 16) / 255;
      for (let c = 0; c < 3; ++c) image.data[4 * i + c] = Math.round(none[c] + (all[c] - none[c]) * share);
      image.data[4 * i + 3] = 255;
    }
    context.putImageData(image, 0, 0);
  };
  paint();
  canvas.paint = paint;
  return canvas;
};

const choose = (tensor, byHand) => {
  if (!tensor) return;
  view.chosen = tensor;
  for (const row of rows()) row.setAttribute("aria-selected", String(row.tensor === tensor));
  const chosen = rowOf(tensor);
  if (chosen) { rove(chosen); reveal(chosen); }
  const about = el("div", {},
    el("h3", {}, named(tensor.name)),
    el("p", {class: "what"}, line([`${tensor.dtype} [${tensor.shape.join(", ")}]`,
      tensor.action === "compressed" ? tensor.scheme : tensor.action === "aliased" ? `same as ${tensor.alias_of}` : tensor.action,
      tensor.rule].filter(Boolean).join(" \u00b7 "))));
  const list = el("dl", {class: "figures"});
  const figure = (name, value, title) => list.append(el("div", {title}, el("dt", {}, name), el("dd", {}, value)));
  figure("before", bytes(tensor.bytes_before), `${commas(tensor.bytes_before)} bytes`);
  figure("after", bytes(tensor.bytes_after), `${commas(tensor.bytes_after)} bytes`);
  figure("ratio", times(tensor.ratio));
  if (tensor.error) {
    const error = tensor.error;
    figure("SQNR", decibels(error.sqnr_db, error.sum_error_squared));
    figure("RMSE", short(error.rmse));
    figure("MAE", short(error.mae));
    figure("max error", short(error.max_error));
    figure("at", error.max_index === undefined ? "\u2013" : place(tensor.shape, error.max_index));
    figure("cosine", error.cosine === null ? "\u2013" : error.cosine.toFixed(6));
    figure("zeros", percent(tensor.sparsity), `${commas(error.zeros_before)} before, ${commas(error.zeros_after)} after`);
    figure("saturated", commas(error.saturated), "beyond the outermost code by more than half a step");
    if (error.non_finite > 0) figure("not finite", commas(error.non_finite));
  }
  about.append(list);
  if (tensor.checksum) about.append(el("p", {class: "sum"}, `xxh3 ${tensor.checksum}`));
  const pictures = [];
  const sampled = h => {
    const count = h.counts.reduce((a, b) => a + b, 0);
    // What is not finite is in no histogram.
    const all = count + (tensor.error ? tensor.error.non_finite : 0) >= elements(tensor);
    return all ? `all ${commas(count)}` : `${commas(count)} sampled`;
  };
  const distributions = el("div");
  if (tensor.weights) {
    distributions.append(el("h4", {}, "Weights before", el("span", {}, sampled(tensor.weights))),
      histogram(tensor.weights, "", "histogram of the weights"));
  }
  if (tensor.codes) {
    distributions.append(el("h4", {}, "Codes", el("span", {}, sampled(tensor.codes))),
      histogram(tensor.codes, "codes", "histogram of the codes"));
  }
  if (distributions.firstChild) pictures.push(distributions);
  if (tensor.nonzeros) {
    pictures.push(el("div", {},
      el("h4", {}, "What is left", el("span", {}, `${percent(1 - tensor.sparsity)} of the weights`)),
      el("div", {class: "map"}, thumbnail(tensor),
        el("p", {}, `${tensor.nonzeros.rows} \u00d7 ${tensor.nonzeros.cols} cells of the matrix; the stronger the colour, the more weights are left.`))));
  }
  const box = byId("detail");
  box.replaceChildren(about, ...pictures);
  // The page moves only so far that the first figures are seen, and never past the row.
  const hidden = box.getBoundingClientRect().top + 160 - innerHeight;
  if (byHand && chosen && hidden > 0) scrollBy(0, Math.max(0, Math.min(hidden, chosen.getBoundingClientRect().top)));
};

const worstOf = list => list.reduce((worst, t) => {
  const a = sqnr(t), b = worst ? sqnr(worst) : undefined;
  return !worst || (a !== undefined && (b === undefined || a < b)) ? t : worst;
}, null);

// Stages, recipe, environment
const rest = () => {
  const heads = ["stage", "options", "tensors", "skipped", "parameters", "nonzero after", "zeros", "bytes before", "bytes after", "ratio"];
  const texts = 2;
  byId("stages").append(
    el("thead", {}, el("tr", {}, ...heads.map((head, i) => el("th", {scope: "col", class: i < texts ? "text" : ""}, head)))),
    el("tbody", {}, ...report.stages.map(s => el("tr", {},
      ...[line(s.name), line(s.options), commas(s.processed), commas(s.skipped), commas(s.parameters), commas(s.nonzero_after),
        percent(s.sparsity), commas(s.bytes_before), commas(s.bytes_after), times(s.ratio)]
        .map((text, i) => el("td", {class: i < texts ? "text" : ""}, text))))));
  if (report.stages.length === 0) byId("stages").closest("section").hidden = true;
  byId("recipe").textContent = report.recipe.split("\n").map(line).join("\n") || "none";
  const row = (name, value) => {
    if (value) byId("environment").append(el("div", {}, el("dt", {}, name), el("dd", {}, line(value))));
  };
  row("tool", report.tool);
  row("processor", report.environment.cpu);
  row("instruction set", report.environment.isa);
  row("threads", String(report.environment.threads));
  row("time", seconds(report.seconds));
  row("speed", totals.bytes_per_second > 0 ? `${bytes(totals.bytes_per_second)}/s of the source` : "");
  row("source", `${plural(report.source.files, "file")}, ${commas(report.source.bytes)} bytes, ${report.source.format}`);
  row("output", `${plural(report.output.files, "file")}, ${commas(report.output.bytes)} bytes, ${report.output.format}`);
};

const theme = () => {
  const names = {auto: "as the system", light: "light", dark: "dark"};
  const button = byId("theme");
  let current = "auto";
  try { current = localStorage.getItem("pith-theme") || "auto"; } catch { /* not for local files everywhere */ }
  if (!(current in names)) current = "auto";
  const apply = () => {
    if (current === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = current;
    button.textContent = current;
    button.setAttribute("aria-label", `Colours: ${names[current]}`);
    for (const canvas of document.querySelectorAll("canvas")) canvas.paint();
  };
  button.addEventListener("click", () => {
    const order = Object.keys(names);
    current = order[(order.indexOf(current) + 1) % order.length];
    try { localStorage.setItem("pith-theme", current); } catch { /* then it is forgotten */ }
    apply();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", apply);
  apply();
};

byId("page").hidden = false;
theme();
hero();
tableHead();
showGroups("layer");
showOutside();
for (const button of byId("grouping").children) {
  button.addEventListener("click", () => {
    for (const other of byId("grouping").children) other.setAttribute("aria-pressed", String(other === button));
    view.only = null;
    showGroups(button.dataset.by);
    showTable();
  });
}
byId("filter").addEventListener("input", event => { view.text = event.target.value; showTable(); });
showTable();
choose(worstOf(tensors));
if (tensors.length === 0) for (const hidden of ["groups", "table"]) byId(hidden).closest("section").hidden = true;
rest();
})();
