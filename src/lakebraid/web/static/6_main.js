// SPDX-License-Identifier: Apache-2.0
// The page: what is shown, what the mouse and the keys do, and news from the server if there is one.

const $ = (id) => document.getElementById(id);
const painter = new Painter($("canvas")), strip = new Painter($("overview"));
const view = { data: null, scale: null, top: 0, gutter: 190, selected: null, hover: null, hits: null, tab: "time" };
let overviewScale = null, queued = false;

function take(model) {
  const data = prepare(model), before = view.scale;
  data.shift = zoneShift(model.instants);
  data.zoneName = data.table.timezone === "UTC" ? "UTC" : "the writers' zone";
  const follows = before && before.high >= before.range()[1] - (before.high - before.low) * 0.02;
  const wasAll = before && before.low <= before.range()[0] && before.high >= before.range()[1];
  view.data = data;
  if (before) {
    const scale = new Scale(data, before.mode);
    if (!wasAll) { const span = before.high - before.low; follows ? scale.show(scale.high - span, scale.high) : scale.show(before.low, before.high); if (!follows) { scale.low = before.low; scale.high = before.high; } }
    view.scale = scale;
  } else view.scale = firstScale(data);
  const keep = view.selected;
  view.selected = keep ? data.instants.find((i) => i.start === keep.start && i.kind === keep.kind) ?? null : null;
  view.hover = null;
  titles(data);
  search(false);
  // While a user reads or tabs through the panel it stays as it is.
  if (!$("side").contains(document.activeElement)) { if (view.selected) showDetails($("side"), data, view.selected, choose); else showNow($("side"), data, choose); }
  if (view.tab === "slices" && !$("slices").contains(document.activeElement)) showSlices($("slices"), data, $("find").value.trim().toLowerCase(), view.selected, choose);
  redraw();
}

/** By the clock if bars are then wide enough to see; the newest part if there is too much for one screen. */
function firstScale(data) {
  const widths = data.instants.map((i) => i.t1 - i.t0).sort((a, b) => a - b), middle = widths[widths.length >> 1] ?? 0;
  const newest = data.instants.slice(-160), stretch = newest.length ? data.last - newest[0].t0 : 1;
  const scale = new Scale(data, data.instants.length && (middle / stretch) * 900 < 3 ? "even" : "clock");
  if (data.instants.length > newest.length) scale.show(scale.unit(newest[0].t0), scale.unit(data.last) + (scale.unit(data.last) - scale.unit(newest[0].t0)) * 0.03);
  return scale;
}

function titles(data) {
  const t = data.table;
  $("name").textContent = t.name;
  $("facts").textContent = [t.path, t.type, `version ${t.version}`, t.concurrency, t.buckets ? `${count(t.buckets)} bucket${t.buckets === 1 ? "" : "s"}` : null].filter(Boolean).join(" · ");
  $("facts").title = t.path;
  document.title = `${t.name} · lakebraid`;
  const used = new Set(data.instants.map((i) => i.style)), marks = [...Object.keys(KINDS).filter((k) => used.has(k) && k !== "other").map((k) => [KINDS[k].name, KINDS[k].shape, k])];
  if (data.instants.some((i) => i.open)) marks.push(["open", "open", "muted"]);
  if (data.instants.some((i) => i.by)) marks.push(["refused or rolled back", "cross", "rollback"]);
  if (data.instants.some((i) => i.late)) marks.push(["late, next slice", "late", "late"]);
  if (!painter.colours.bg) painter.recolour();
  $("legend").replaceChildren(...marks.map(([name, shape, colour]) => el("span", {}, mark(shape, painter.colours[colour]), name)));
}

function mark(shape, colour) {
  const made = el("canvas", { width: 28, height: 28, "aria-hidden": "true" }), c = made.getContext("2d");
  c.scale(2, 2);
  if (shape === "open") { c.strokeStyle = colour; c.setLineDash([3, 2]); c.strokeRect(1, 3, 12, 8); }
  else if (shape === "late") { c.strokeStyle = colour; c.lineWidth = 2; c.beginPath(); c.arc(7, 11, 5.5, Math.PI, 0); c.stroke(); }
  else painter.shape(shape, 7, 7, colour, c);
  return made;
}

function redraw() {
  if (queued) return;
  queued = true;
  requestAnimationFrame(() => { queued = false; draw(); });
}

function draw() {
  if (!view.data) return;
  const started = performance.now();
  if (view.tab === "list") { list.show(view.data, view.hits, view.selected); return; }
  if (view.tab !== "time") return;
  const box = $("scroll");
  view.gutter = box.clientWidth < 640 ? 112 : 190;
  const lanes = view.data.lanes, total = AXIS + (lanes.length ? lanes.at(-1).y + lanes.at(-1).height : 0) + 16;
  $("height").style.height = `${Math.max(0, total - box.clientHeight)}px`;
  view.top = box.scrollTop;
  painter.size(box.clientWidth, box.clientHeight);
  view.scale.left = view.gutter; view.scale.width = box.clientWidth - view.gutter - 12;
  painter.draw(view);
  strip.size($("overview").clientWidth, 44); strip.colours = painter.colours;
  overviewScale = drawOverview(strip, view);
  const [a, b] = view.scale.range();
  $("overview").setAttribute("aria-valuenow", String(Math.round(Math.max(0, Math.min(1, ((view.scale.low + view.scale.high) / 2 - a) / (b - a))) * 100)));
  // For what watches the page from outside, such as a test.
  window.lakebraidDrawn = { ms: performance.now() - started, at: performance.now(), places: painter.boxes.map(([x, y, x2, y2, i]) => [i.start, x + 5, x2 - 7, (y + y2) / 2]) };
}

// ---- choosing --------------------------------------------------------------------------------------------------------

function choose(instant, { reveal = true, focus = false } = {}) {
  view.selected = instant;
  if (instant) {
    const title = showDetails($("side"), view.data, instant, choose);
    $("side").scrollTop = 0;
    $("spoken").textContent = spoken(view.data, instant);
    if (reveal) show(instant);
    if (focus) title.focus();
  } else { showNow($("side"), view.data, choose); $("spoken").textContent = ""; }
  for (const shown of document.querySelectorAll(".file.on")) shown.classList.remove("on");
  if (view.tab === "slices") showSlices($("slices"), view.data, $("find").value.trim().toLowerCase(), view.selected, choose);
  redraw();
}

/** Moves the picture so far that the instant can be seen. */
function show(i) {
  const s = view.scale, a = s.unit(i.t0), b = s.unit(i.t1), span = s.high - s.low, lane = view.data.lanes[i.lane], box = $("scroll");
  if (b < s.low + span * 0.03 || a > s.high - span * 0.03) { const centre = (a + b) / 2; s.low = centre - span / 2; s.high = centre + span / 2; }
  const y = lane.y + i.row * ROW;
  if (y < box.scrollTop) box.scrollTop = Math.max(0, y - 20);
  else if (y + ROW * 2 + AXIS > box.scrollTop + box.clientHeight) box.scrollTop = y + ROW * 3 + AXIS - box.clientHeight;
  if (view.tab === "list") list.reveal(i);
}

function step(by) {
  const all = view.hits?.size ? view.data.instants.filter((i) => view.hits.has(i.at)) : view.data.instants;
  if (!all.length) return;
  const at = view.selected ? all.indexOf(view.selected) : -1;
  choose(at < 0 ? nearest(all, by) : all[Math.max(0, Math.min(all.length - 1, at + by))]);
}

function nearest(all, by) {
  const low = view.scale.time(view.scale.low), high = view.scale.time(view.scale.high), seen = all.filter((i) => i.t1 >= low && i.t0 <= high);
  return (seen.length ? seen : all).at(by > 0 ? 0 : -1);
}

function across(by) {
  const from = view.selected;
  if (!from) { step(by); return; }
  for (let lane = from.lane + by; lane >= 0 && lane < view.data.lanes.length; lane += by) {
    let best = null;
    for (const i of view.data.instants) if (i.lane === lane && (!best || Math.abs(i.t1 - from.t1) < Math.abs(best.t1 - from.t1))) best = i;
    if (best) { choose(best); return; }
  }
}

function search(move = true) {
  const words = $("find").value.trim().toLowerCase(), data = view.data;
  if (!words) view.hits = null;
  else {
    view.hits = new Set();
    for (const i of data.instants) if (`${data.lanes[i.lane].name} ${i.start} ${clock(i.start)} ${clock(i.completion ?? "")} ${i.kind} ${kindName(i)} ${i.state} ${(i.partitions ?? []).join(" ")} ${i.late ? "late" : ""}`.toLowerCase().includes(words)) view.hits.add(i.at);
  }
  $("found").textContent = words ? `${count(view.hits.size)} of ${count(data.instants.length)}` : "";
  if (view.tab === "slices" && move) showSlices($("slices"), data, words, view.selected, choose);
  redraw();
}

function tab(name) {
  view.tab = name;
  for (const other of ["time", "slices", "list"]) {
    $(other).hidden = other !== name;
    $(`tab-${other}`).setAttribute("aria-selected", String(other === name)); $(`tab-${other}`).tabIndex = other === name ? 0 : -1;
  }
  if (name === "slices") showSlices($("slices"), view.data, $("find").value.trim().toLowerCase(), view.selected, choose);
  if (name === "list") { list.show(view.data, view.hits, view.selected); if (view.selected) list.reveal(view.selected); }
  redraw();
}

// ---- tools, mouse, keys ----------------------------------------------------------------------------------------------

function theme() {
  const dark = document.documentElement.dataset.theme ? document.documentElement.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = dark ? "light" : "dark";
  try { localStorage.setItem("lakebraid-theme", document.documentElement.dataset.theme); } catch { /* a page from a file may have no storage */ }
  recolour();
}
function recolour() { painter.recolour(); if (view.data) titles(view.data); redraw(); }

function axis() {
  const old = view.scale, low = old.time(old.low), high = old.time(old.high), all = old.low <= old.range()[0] && old.high >= old.range()[1];
  view.scale = new Scale(view.data, old.mode === "clock" ? "even" : "clock");
  if (!all) { const a = view.scale.unit(low), b = view.scale.unit(high); if (b > a) view.scale.show(a, Math.max(b, a + view.scale.smallest())); }
  $("axis").setAttribute("aria-pressed", String(view.scale.mode === "even"));
  redraw();
}
function zoom(factor, x) { view.scale.zoom(factor, x); redraw(); }
function fit() { [view.scale.low, view.scale.high] = view.scale.range(); redraw(); }

$("axis").onclick = axis; $("in").onclick = () => zoom(0.6); $("out").onclick = () => zoom(1 / 0.6); $("fit").onclick = fit; $("theme").onclick = theme; $("help").onclick = () => $("keys").showModal();
for (const name of ["time", "slices", "list"]) $(`tab-${name}`).onclick = () => tab(name);
$("find").oninput = () => search();
$("find").onkeydown = (event) => { if (event.key === "Enter") { event.preventDefault(); if (view.hits?.size) { const all = view.data.instants.filter((i) => view.hits.has(i.at)), at = all.indexOf(view.selected); choose(all[(at + 1) % all.length]); } } };
$("scroll").onscroll = redraw;
const list = new List($("list"), (i) => choose(i, { reveal: false }));
list.body.onkeydown = (event) => { if (event.key === "ArrowDown" || event.key === "ArrowUp") { event.preventDefault(); event.stopPropagation(); step(event.key === "ArrowDown" ? -1 : 1); } };

const KEYS = {
  ArrowLeft: () => step(-1), ArrowRight: () => step(1), ArrowUp: () => across(-1), ArrowDown: () => across(1), "+": () => zoom(0.6), "=": () => zoom(0.6), "-": () => zoom(1 / 0.6), 0: fit,
  o: axis, t: theme, "?": () => $("keys").showModal(), 1: () => tab("time"), 2: () => tab("slices"), 3: () => tab("list"), "/": () => { $("find").focus(); $("find").select(); },
  Enter: () => view.selected && choose(view.selected, { focus: true }),
};
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && !$("keys").open) {
    if (document.activeElement === $("find") || $("find").value) { $("find").value = ""; search(); $("canvas").focus(); } else if (view.selected) { choose(null); $("canvas").focus(); }
    return;
  }
  const typing = event.target.matches("input"), pressing = event.key === "Enter" && event.target.matches("button");
  const scrolling = event.key.startsWith("Arrow") && (event.target.matches("[role=tab]") || event.target.closest("aside, #slices"));
  if (typing || pressing || scrolling || event.ctrlKey || event.metaKey || event.altKey || $("keys").open) return;
  const act = KEYS[event.key];
  if (act) { event.preventDefault(); act(); }
});
document.querySelector("nav").addEventListener("keydown", (event) => {
  const tabs = ["time", "slices", "list"], by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (by && event.target.matches("[role=tab]")) { const next = tabs[(tabs.indexOf(view.tab) + by + 3) % 3]; tab(next); $(`tab-${next}`).focus(); }
});

const canvas = $("canvas");
let drag = null;
canvas.onpointerdown = (event) => { drag = { x: event.clientX, y: event.clientY, top: $("scroll").scrollTop, moved: false }; canvas.setPointerCapture(event.pointerId); };
canvas.onpointermove = (event) => {
  if (drag) {
    const by = event.clientX - drag.x;
    if (Math.abs(by) + Math.abs(event.clientY - drag.y) > 3) drag.moved = true;
    if (drag.moved) { canvas.classList.add("drag"); view.scale.pan(-by); drag.x = event.clientX; $("scroll").scrollTop = drag.top - (event.clientY - drag.y); tip(null); redraw(); }
    return;
  }
  const found = painter.hit(event.offsetX, event.offsetY);
  canvas.classList.toggle("over", !!found);
  if (found !== view.hover) { view.hover = found; redraw(); }
  tip(found, event);
};
canvas.onpointerup = (event) => { if (drag && !drag.moved) { const found = painter.hit(event.offsetX, event.offsetY); choose(found, { reveal: false }); } drag = null; canvas.classList.remove("drag"); };
canvas.onpointerleave = () => { if (view.hover) { view.hover = null; redraw(); } tip(null); };
canvas.ondblclick = (event) => zoom(0.4, event.offsetX);
canvas.addEventListener("wheel", (event) => {
  const box = $("scroll"), scrolls = box.scrollHeight > box.clientHeight + 1;
  if (Math.abs(event.deltaX) > Math.abs(event.deltaY) || event.shiftKey) { event.preventDefault(); view.scale.pan(event.deltaX || event.deltaY); redraw(); }
  else if (event.ctrlKey || event.metaKey || !scrolls) { event.preventDefault(); zoom(Math.exp(Math.max(-60, Math.min(60, event.deltaY)) * 0.006), event.offsetX); }
}, { passive: false });

function tip(i, event) {
  const box = $("tip");
  box.hidden = !i;
  if (!i) return;
  box.replaceChildren(el("b", {}, kindName(i)), ` ${i.state}`, el("div", {}, data_line(i)), el("div", { class: "mono" }, clock(i.start)));
  const x = Math.min(event.offsetX + 14, canvas.clientWidth - box.offsetWidth - 8), y = event.offsetY + 60;
  box.style.left = `${Math.max(4, x)}px`; box.style.top = `${Math.min(y, canvas.clientHeight + 44 - box.offsetHeight - 6)}px`;
}
function data_line(i) { return [view.data.lanes[i.lane].name, i.open ? `open for ${took(i.t1 - i.t0)}` : took(i.t1 - i.t0), i.rows !== undefined ? `${count(i.rows)} rows` : null, i.late ? "late: next slice" : null].filter(Boolean).join(" · "); }

const overview = $("overview");
let brushing = false;
function brush(event) { const span = view.scale.high - view.scale.low, centre = overviewScale.at(event.offsetX); view.scale.show(centre - span / 2, centre + span / 2); redraw(); }
overview.onpointerdown = (event) => { brushing = true; overview.setPointerCapture(event.pointerId); const [a, b] = view.scale.range(); if (view.scale.high - view.scale.low > (b - a) * 0.9) view.scale.zoom(0.25); brush(event); };
overview.onpointermove = (event) => { if (brushing) brush(event); };
overview.onpointerup = () => { brushing = false; };
overview.onkeydown = (event) => { const by = { ArrowLeft: -80, ArrowRight: 80 }[event.key]; if (by) { event.preventDefault(); event.stopPropagation(); view.scale.pan(by); redraw(); } };

// ---- start, and news -------------------------------------------------------------------------------------------------

try { const kept = localStorage.getItem("lakebraid-theme"); if (kept === "light" || kept === "dark") document.documentElement.dataset.theme = kept; } catch { /* see above */ }
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", recolour);
new ResizeObserver(redraw).observe($("scroll"));
painter.recolour();
const given = JSON.parse($("model").textContent);
take(given.model);
$("axis").setAttribute("aria-pressed", String(view.scale.mode === "even"));

if (given.poll_ms) {
  const news = async () => {
    if (!document.hidden) {
      try {
        const answer = await fetch("model.json", { cache: "no-store" });
        if (!answer.ok) throw new Error(await answer.text());
        take(await answer.json());
        $("live").className = "on"; $("live").textContent = "live";
      } catch { $("live").className = "off"; $("live").textContent = "no answer; what you see may be old"; }
    }
    setTimeout(news, given.poll_ms);
  };
  $("live").className = "on"; $("live").textContent = "live";
  setTimeout(news, given.poll_ms);
}
