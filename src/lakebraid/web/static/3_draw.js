// SPDX-License-Identifier: Apache-2.0
// The timeline on a canvas. Only what is in view is drawn, so thousands of instants cost what hundreds do.

const AXIS = 42;

class Painter {
  constructor(canvas) { this.canvas = canvas; this.context = canvas.getContext("2d"); this.colours = {}; this.boxes = []; }

  /** The colours of the theme that is on. */
  recolour() {
    const style = getComputedStyle(document.documentElement);
    const names = [...Object.keys(KINDS), "bg", "panel", "line", "line-soft", "text", "muted", "band", "accent", "hit", "late", "on", "warn"];
    this.colours = Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
    this.stripes = {};
  }

  size(width, height) {
    const ratio = window.devicePixelRatio || 1;
    if (this.canvas.width !== Math.round(width * ratio) || this.canvas.height !== Math.round(height * ratio)) {
      this.canvas.width = Math.round(width * ratio); this.canvas.height = Math.round(height * ratio);
      this.canvas.style.height = `${height}px`;
    }
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.width = width; this.height = height;
  }

  draw(view) {
    const { data, scale, top, gutter } = view, c = this.context, k = this.colours;
    c.fillStyle = k.bg; c.fillRect(0, 0, this.width, this.height);
    c.font = "12px system-ui, -apple-system, 'Segoe UI', Roboto, 'Liberation Sans', sans-serif"; c.textBaseline = "middle";
    this.boxes = [];
    c.save();
    c.beginPath(); c.rect(gutter, 0, this.width - gutter, this.height); c.clip();
    this.bands(view);
    for (const [x] of scale.ticks(90)) { c.fillStyle = k["line-soft"]; c.fillRect(Math.round(x), AXIS, 1, this.height); }
    this.barriers(view);
    const visible = this.visible(view);
    const seen = new Set();
    for (const i of visible) {
      const place = this.place(view, i);
      if (place.wide < 4 && i !== view.selected && !view.hits?.has(i.at)) { const cell = `${i.style}${i.state}${Math.round(place.x)}:${place.y}`; if (seen.has(cell)) continue; seen.add(cell); }
      this.bar(view, i, place);
    }
    for (const i of visible) if (i.late) this.late(view, i, this.place(view, i));
    if (view.selected) this.ring(this.place(view, view.selected), k.text);
    if (view.hover && view.hover !== view.selected) this.ring(this.place(view, view.hover), k.muted);
    this.axis(view);
    c.restore();
    this.lanes(view, data, top, gutter);
  }

  visible({ data, scale, top }) {
    const low = scale.time(scale.low), high = scale.time(scale.high), lanes = data.lanes;
    const shown = lanes.map((l) => l.y + l.height + AXIS > top && l.y + AXIS < top + this.height + AXIS);
    return data.instants.filter((i) => i.t1 >= low && i.t0 <= high && shown[i.lane]);
  }

  place({ data, scale, top }, i) {
    const x = scale.x(i.t0), end = scale.x(i.t1);
    return { x, end, wide: end - x, y: AXIS + data.lanes[i.lane].y + LANE_PAD / 2 + i.row * ROW + (ROW - BAR) / 2 - top };
  }

  /** Ground between barriers, every second one shaded: what completes there belongs to that slice. */
  bands({ data, scale, gutter }) {
    const c = this.context, edges = [-Infinity, ...data.barriers.map((b) => b.t), Infinity];
    for (let n = 0; n + 1 < edges.length; n++) {
      const a = Math.max(gutter, edges[n] === -Infinity ? gutter : scale.x(edges[n])), b = Math.min(this.width, edges[n + 1] === Infinity ? this.width : scale.x(edges[n + 1]));
      if (b <= a) continue;
      if (n % 2) { c.fillStyle = this.colours.band; c.fillRect(a, AXIS - 18, b - a, this.height); }
    }
  }

  barriers({ data, scale, gutter }) {
    const c = this.context, k = this.colours;
    let last = -Infinity;
    for (const barrier of data.barriers) {
      const x = Math.round(scale.x(barrier.t)) + 0.5;
      if (x < gutter || x > this.width || x - last < 1) continue;
      c.strokeStyle = k.compaction; c.globalAlpha = x - last < 16 ? 0.2 : 0.8; c.lineWidth = 1.25; c.setLineDash([5, 4]);
      c.beginPath(); c.moveTo(x, AXIS - 4); c.lineTo(x, this.height); c.stroke(); c.setLineDash([]); c.globalAlpha = 1;
      last = x;
    }
  }

  bar(view, i, { x, end, wide, y }) {
    const c = this.context, k = this.colours, colour = i.silent ? k.rollback : k[i.style];
    const dim = (view.hits && !view.hits.has(i.at)) || (i.archived && !view.hits);
    c.globalAlpha = view.hits && dim ? 0.18 : dim ? 0.6 : 1;
    const w = Math.max(2, wide);
    if (i.state === "completed") { c.fillStyle = colour; this.pill(x, y, w, BAR); c.fill(); }
    else if (i.open) {
      this.pill(x, y, w + 4, BAR); c.fillStyle = this.striped(colour); c.fill();
      c.strokeStyle = colour; c.lineWidth = 1.25; c.setLineDash([3, 2]); c.stroke(); c.setLineDash([]);
    } else {
      this.pill(x, y, w, BAR); c.globalAlpha *= 0.14; c.fillStyle = k.rollback; c.fill(); c.globalAlpha = dim ? 0.2 : 1;
      c.strokeStyle = k.rollback; c.lineWidth = 1.25; c.stroke();
    }
    if (i.open) this.arrow(x + w + 4, y + BAR / 2, colour);
    else if (i.state !== "completed") this.shape("cross", Math.max(x + 6, end - 8), y + BAR / 2, k.rollback);
    else if (wide < 6) this.shape(KINDS[i.style].shape, end, y + BAR / 2, colour);
    else if (wide > 18) this.shape(KINDS[i.style].shape, end - 8, y + BAR / 2, k.on, c, 0.72);
    if (wide > 44) this.inside(i, x, y, wide);
    c.globalAlpha = 1;
    if (view.hits?.has(i.at)) { c.strokeStyle = k.hit; c.lineWidth = 2; this.pill(x - 2, y - 2, w + 4, BAR + 4); c.stroke(); }
    this.boxes.push([x - 5, y - 3, Math.max(end, x + w) + 7, y + BAR + 3, i]);
  }

  inside(i, x, y, wide) {
    const c = this.context, words = i.by ? i.state : i.style === "write" ? (i.silent ? "silent" : i.rows === undefined ? "open" : `${short(i.rows)} rows`) : i.open ? "planned" : KINDS[i.style].name;
    c.font = "600 10.5px system-ui, -apple-system, 'Segoe UI', Roboto, 'Liberation Sans', sans-serif";
    const room = wide - 24, full = c.measureText(words).width <= room ? words : i.rows !== undefined && i.style === "write" ? short(i.rows) : "";
    if (full && c.measureText(full).width <= room) { c.fillStyle = i.state === "completed" ? this.colours.on : i.open ? this.colours.text : this.colours.rollback; c.fillText(full, Math.max(x, 4) + 5, y + BAR / 2 + 0.5); }
    c.font = "12px system-ui, -apple-system, 'Segoe UI', Roboto, 'Liberation Sans', sans-serif";
  }

  /** A late finisher: what began before the barrier jumps over it, into the slice that the barrier opened. */
  late({ data, scale, hits }, i, { end, y }) {
    const barrier = data.byStart.get(i.late);
    if (!barrier || (hits && !hits.has(i.at))) return;
    const c = this.context, from = scale.x(barrier.t0), to = i.open ? end + 4 : end, span = to - from;
    if (span < 5) return;
    const lift = Math.min(13, 7 + span / 12), base = y - 1;
    c.strokeStyle = c.fillStyle = this.colours.late; c.lineWidth = 2;
    c.beginPath(); c.moveTo(from, base); c.bezierCurveTo(from + span * 0.1, base - lift, to - span * 0.12, base - lift, to, base - 2); c.stroke();
    c.beginPath(); c.moveTo(to, base + 2); c.lineTo(to - 4.5, base - 5); c.lineTo(to + 4.5, base - 5); c.fill();
    c.beginPath(); c.arc(from, base, 2.5, 0, 7); c.fill();
    c.fillRect(from, y + BAR - 2.5, to - from - 2, 2.5);
  }

  pill(x, y, w, h) { const c = this.context; c.beginPath(); if (w < 5) c.rect(x, y, w, h); else c.roundRect(x, y, w, h, 3.5); }

  ring({ x, y, wide }, colour) { const c = this.context; c.strokeStyle = colour; c.lineWidth = 2; this.pill(x - 4, y - 3.5, Math.max(wide, 2) + 11, BAR + 7); c.stroke(); }

  arrow(x, y, colour) { const c = this.context; c.fillStyle = colour; c.beginPath(); c.moveTo(x, y - 5); c.lineTo(x + 6, y); c.lineTo(x, y + 5); c.fill(); }

  /** The mark at the end of a bar: the same fact as its colour, for those who do not see colours. */
  shape(shape, x, y, colour, context = this.context, size = 1) {
    const c = context, r = 4.5 * size;
    c.fillStyle = c.strokeStyle = colour; c.lineWidth = 2; c.beginPath();
    if (shape === "dot") { c.arc(x, y, r - 0.5, 0, 7); c.fill(); }
    else if (shape === "ring") { c.lineWidth = 2 * size; c.arc(x, y, r - 1, 0, 7); c.stroke(); }
    else if (shape === "diamond") { c.moveTo(x, y - r - 2 * size); c.lineTo(x + r + size, y); c.lineTo(x, y + r + 2 * size); c.lineTo(x - r - size, y); c.fill(); }
    else if (shape === "square") { c.rect(x - r + 0.5, y - r + 0.5, 2 * r - 1, 2 * r - 1); c.fill(); }
    else if (shape === "bar") { c.rect(x - 1.5, y - r - 2 * size, 3, 2 * r + 4 * size); c.fill(); }
    else if (shape === "triangle") { c.moveTo(x + r, y - r); c.lineTo(x - r, y); c.lineTo(x + r, y + r); c.fill(); }
    else if (shape === "flag") { c.rect(x - 1, y - r - 2 * size, 2 * size, 2 * r + 4 * size); c.fill(); c.beginPath(); c.moveTo(x, y - r - 2 * size); c.lineTo(x + 8 * size, y - 3 * size); c.lineTo(x, y); c.fill(); }
    else { c.lineWidth = 2.25; c.moveTo(x - r, y - r); c.lineTo(x + r, y + r); c.moveTo(x + r, y - r); c.lineTo(x - r, y + r); c.stroke(); }
  }

  striped(colour) {
    if (!this.stripes[colour]) {
      const tile = document.createElement("canvas"); tile.width = tile.height = 8;
      const c = tile.getContext("2d"); c.globalAlpha = 0.18; c.fillStyle = colour; c.fillRect(0, 0, 8, 8); c.globalAlpha = 0.5; c.strokeStyle = colour; c.lineWidth = 2;
      for (const d of [-4, 4, 12]) { c.beginPath(); c.moveTo(d - 6, 10); c.lineTo(d + 6, -2); c.stroke(); }
      this.stripes[colour] = this.context.createPattern(tile, "repeat");
    }
    return this.stripes[colour];
  }

  axis({ data, scale, gutter }) {
    const c = this.context, k = this.colours;
    c.fillStyle = k.panel; c.fillRect(gutter, 0, this.width, AXIS - 18); c.fillStyle = k.line; c.fillRect(gutter, AXIS, this.width, 1); c.fillRect(gutter, AXIS - 18, this.width, 1);
    c.fillStyle = k.muted;
    for (const [x, label] of scale.ticks(90)) { c.fillRect(Math.round(x), AXIS - 22, 1, 4); const wide = c.measureText(label).width; c.fillText(label, Math.min(this.width - wide - 4, Math.max(gutter + 5, x - wide / 2)), 12); }
    c.fillStyle = k.bg; c.fillRect(gutter, AXIS - 17, this.width, 17);
    const edges = [-Infinity, ...data.barriers.map((b) => b.t), Infinity];
    c.font = "11px system-ui, -apple-system, 'Segoe UI', Roboto, 'Liberation Sans', sans-serif";
    let last = -Infinity;
    for (let n = 0; n + 1 < edges.length; n++) {
      const a = edges[n] === -Infinity ? gutter : Math.max(gutter, scale.x(edges[n])), b = edges[n + 1] === Infinity ? this.width : Math.min(this.width, scale.x(edges[n + 1]));
      if (b - a < 2 || a > this.width) continue;
      if (n % 2) { c.fillStyle = k.band; c.fillRect(a, AXIS - 17, b - a, 17); }
      const words = n ? `slice ${n + 1} · opened by compaction ${clock(data.barriers[n - 1].start, false).slice(0, 8)}` : data.barriers.length ? "slice 1" : "one slice: no compaction yet";
      const text = c.measureText(words).width < b - a - 12 ? words : `slice ${n + 1}`;
      if (c.measureText(text).width < b - a - 12) { c.fillStyle = k.muted; c.fillText(text, a + 7, AXIS - 8); }
      if (n && a > gutter && a - last > 11) { last = a; c.fillStyle = k.compaction; c.beginPath(); c.moveTo(a - 5, AXIS - 17); c.lineTo(a + 5, AXIS - 17); c.lineTo(a, AXIS - 9); c.fill(); }
    }
    c.font = "12px system-ui, -apple-system, 'Segoe UI', Roboto, 'Liberation Sans', sans-serif";
  }

  lanes({ scale }, data, top, gutter) {
    const c = this.context, k = this.colours;
    c.fillStyle = k.panel; c.fillRect(0, 0, gutter, this.height); c.fillStyle = k.line; c.fillRect(gutter - 1, 0, 1, this.height);
    c.save(); c.beginPath(); c.rect(0, AXIS + 1, this.width, this.height); c.clip();
    data.lanes.forEach((lane, at) => {
      const y = AXIS + lane.y - top;
      if (y > this.height || y + lane.height < AXIS) return;
      c.fillStyle = lane.service && (at === 0 || !data.lanes[at - 1].service) ? k.line : k["line-soft"];
      if (at) c.fillRect(0, Math.round(y) - (lane.service && !data.lanes[at - 1].service ? 5 : 0), this.width, 1);
      c.fillStyle = lane.service || lane.name.startsWith("(") ? k.muted : k.text;
      const number = short(lane.count), room = gutter - 24 - c.measureText(number).width, middle = y + Math.min(lane.height, 2 * ROW) / 2;
      c.fillText(this.fitted(lane.service ? (KINDS[lane.name]?.name ?? lane.name) : lane.name, room), 12, middle);
      c.fillStyle = k.muted; c.fillText(number, gutter - 10 - c.measureText(number).width, middle);
    });
    c.restore();
    c.fillStyle = k.panel; c.fillRect(0, 0, gutter - 1, AXIS); c.fillStyle = k.muted; c.font = "11px system-ui, -apple-system, 'Segoe UI', Roboto, 'Liberation Sans', sans-serif";
    c.fillText(this.fitted(scale.mode === "clock" ? `times in ${data.zoneName}` : "one step for each event", gutter - 18), 12, 12); c.fillText(this.fitted("writers, then services", gutter - 18), 12, AXIS - 9); c.fillStyle = k.line; c.fillRect(0, AXIS, gutter, 1);
    c.font = "12px system-ui, -apple-system, 'Segoe UI', Roboto, 'Liberation Sans', sans-serif";
  }

  fitted(text, room) {
    const c = this.context;
    if (c.measureText(text).width <= room) return text;
    let low = 0, high = Math.min(text.length, 120);
    while (low < high) { const mid = (low + high + 1) >> 1; if (c.measureText(`${text.slice(0, mid)}…`).width <= room) low = mid; else high = mid - 1; }
    return `${text.slice(0, low)}…`;
  }

  hit(x, y) { for (let n = this.boxes.length - 1; n >= 0; n--) { const [a, b, c, d, i] = this.boxes[n]; if (x >= a && x <= c && y >= b && y <= d) return i; } return null; }
}

/** The strip above: everything at once, and a window on what is shown below. */
function drawOverview(painter, view) {
  const { data, scale, gutter } = view, c = painter.context, k = painter.colours, all = new Scale(data, scale.mode);
  all.left = gutter; all.width = painter.width - gutter - 12;
  c.fillStyle = k.panel; c.fillRect(0, 0, painter.width, painter.height);
  const columns = new Map();
  for (const i of data.instants) {
    const x = Math.round(all.x(i.t1)), key = x * 2 + (data.lanes[i.lane].service ? 1 : 0), cell = columns.get(key) ?? {};
    cell[i.by ? "rollback" : i.style] = (cell[i.by ? "rollback" : i.style] ?? 0) + 1;
    columns.set(key, cell);
  }
  for (const [key, cell] of columns) {
    const x = key >> 1, service = key & 1;
    let y = service ? 30 : 28;
    for (const [style, n] of Object.entries(cell)) { const h = Math.min(service ? 9 : 22, 3 + Math.log2(n + 1) * 4); c.fillStyle = k[style]; c.fillRect(x - 1, service ? y : y - h, 2, h); if (!service) y -= h; }
  }
  c.fillStyle = k.line; c.fillRect(gutter, 28, painter.width, 1);
  const a = Math.max(gutter, all.left + ((scale.low - all.low) / (all.high - all.low)) * all.width), b = Math.min(painter.width - 4, all.left + ((scale.high - all.low) / (all.high - all.low)) * all.width);
  c.fillStyle = k.bg; c.globalAlpha = 0.62; c.fillRect(gutter, 0, a - gutter, painter.height); c.fillRect(b, 0, painter.width - b, painter.height); c.globalAlpha = 1;
  c.strokeStyle = k.accent; c.lineWidth = 1.5; c.strokeRect(a + 0.75, 1.75, Math.max(3, b - a - 1.5), painter.height - 4);
  c.fillStyle = k.panel; c.fillRect(0, 0, gutter, painter.height); c.fillStyle = k.muted; c.font = "11px system-ui, -apple-system, 'Segoe UI', Roboto, 'Liberation Sans', sans-serif"; c.textBaseline = "middle";
  c.fillText(`${count(data.instants.length)} instants`, 12, 14); c.fillText(took(data.last - data.first), 12, 30);
  return all;
}
