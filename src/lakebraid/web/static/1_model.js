// SPDX-License-Identifier: Apache-2.0
// The model as the page holds it: instants with their places, lanes with rows, and words for people.

const KINDS = {
  write: { name: "write", shape: "dot" }, compaction: { name: "compaction", shape: "diamond" },
  logcompaction: { name: "log compaction", shape: "ring" }, clustering: { name: "clustering", shape: "square" },
  clean: { name: "clean", shape: "bar" }, rollback: { name: "rollback", shape: "cross" },
  restore: { name: "restore", shape: "triangle" }, savepoint: { name: "savepoint", shape: "flag" }, other: { name: "other", shape: "dot" },
};
const WRITES = new Set(["write", "commit", "deltacommit", "replacecommit"]);
const MINUTE = 60000, HOUR = 60 * MINUTE, DAY = 24 * HOUR;

function styleOf(instant) {
  return WRITES.has(instant.kind) ? "write" : instant.kind in KINDS ? instant.kind : "other";
}

/** Everything that depends on the model alone; made anew when a live page gets news. */
function prepare(model) {
  const dead = new Map((model.status?.writers ?? []).filter((w) => w.is_silent).map((w) => [w.instant, w]));
  const instants = model.instants.map((given, at) => ({ ...given, at, style: styleOf(given), open: given.state === "requested" || given.state === "inflight" }));
  for (const i of instants) if (i.open && i.style === "write" && dead.has(i.start)) i.silent = dead.get(i.start);
  const timed = instants.filter((i) => i.t0 !== undefined);
  const first = timed.length ? Math.min(...ends(timed.map((i) => i.t0))) : model.now;
  let last = first;
  for (const i of instants) {
    if (i.t0 === undefined) i.t0 = first;
    i.t1 = Math.max(i.t0, i.t1 ?? (i.open ? Math.max(model.now, i.t0) : i.t0));
    last = Math.max(last, i.t1);
  }
  const barriers = instants.filter((i) => i.kind === "compaction").map((i) => ({ t: i.t0, start: i.start, instant: i }));
  const byStart = new Map();
  for (const i of instants) if (!byStart.has(i.start) || styleOf(i) !== "savepoint") byStart.set(i.start, i);
  return { ...model, instants, first, last: Math.max(last, first + 1), barriers, byStart, lanes: laneRows(model.lanes, instants), times: rankTimes(instants) };
}

function ends(numbers) { let low = Infinity, high = -Infinity; for (const n of numbers) { if (n < low) low = n; if (n > high) high = n; } return [low, high]; }

/** Each lane with as many rows as it has instants at one time; each instant gets its row. */
function laneRows(lanes, instants) {
  const made = lanes.map((lane) => ({ ...lane, ends: [], count: 0 }));
  for (const i of instants) {
    const lane = made[i.lane];
    let row = lane.ends.findIndex((end) => end <= i.t0);
    if (row < 0) row = lane.ends.length;
    lane.ends[row] = i.t1 + (i.t1 === i.t0 ? 1 : 0);
    i.row = row;
    lane.count++;
  }
  let y = 8;
  made.forEach((lane, at) => {
    if (lane.service && (at === 0 || !made[at - 1].service)) y += 10;
    lane.y = y;
    lane.height = Math.max(1, lane.ends.length) * ROW + LANE_PAD;
    y += lane.height;
  });
  return made;
}

const ROW = 21, LANE_PAD = 12, BAR = 15;

function rankTimes(instants) {
  const all = new Set();
  for (const i of instants) { all.add(i.t0); all.add(i.t1); }
  return Float64Array.from(all).sort();
}

/** The files that an instant made, by its place. */
function filesOf(data, instant) {
  if (!data.filesBy) {
    data.filesBy = new Map();
    data.files.forEach((file, at) => { if (typeof file[1] === "number") { if (!data.filesBy.has(file[1])) data.filesBy.set(file[1], []); data.filesBy.get(file[1]).push(at); } });
  }
  return data.filesBy.get(instant.at) ?? [];
}

function fileName(data, at) {
  const [group, instant, kind, rest] = data.files[at];
  const id = data.groups[group][1];
  const start = typeof instant === "number" ? data.instants[instant].start : instant;
  return kind === "base" ? `${id}_${rest}_${start}.parquet` : `.${id}_${start}.log.${rest}`;
}

function touches(data, instant) {
  const groups = new Set(filesOf(data, instant).map((at) => data.files[at][0]));
  for (const [group] of instant.plan ?? []) groups.add(group);
  return groups;
}

/** Instants that ran at the same time on one of the same file groups. */
function beside(data, instant) {
  const own = touches(data, instant);
  if (!own.size) return [];
  return data.instants.filter((o) => o !== instant && o.t0 < instant.t1 && o.t1 > instant.t0 && [...touches(data, o)].some((g) => own.has(g)));
}

// ---- words -----------------------------------------------------------------------------------------------------------

const count = (n) => (n ?? 0).toLocaleString("en-US");
const short = (n) => (n < 1000 ? `${n}` : n < 1e6 ? `${+(n / 1e3).toFixed(1)}k` : n < 1e9 ? `${+(n / 1e6).toFixed(1)}M` : `${+(n / 1e9).toFixed(1)}G`);
function bytes(n) { let unit = 0; while (n >= 1024 && unit < 4) { n /= 1024; unit++; } return `${unit ? n.toFixed(1) : n} ${["B", "KiB", "MiB", "GiB", "TiB"][unit]}`; }
function took(ms) {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < MINUTE) return `${(ms / 1000).toFixed(ms < 10000 ? 1 : 0)} s`;
  if (ms < HOUR) return `${Math.floor(ms / MINUTE)} min ${Math.round((ms % MINUTE) / 1000)} s`;
  if (ms < 2 * DAY) return `${Math.floor(ms / HOUR)} h ${Math.round((ms % HOUR) / MINUTE)} min`;
  return `${Math.round(ms / DAY)} days`;
}
/** The 17 digits as people read them, in the table's own zone: 2026-03-02 12:00:04.001. */
function clock(digits, withDate = true) {
  if (!/^\d{17}$/.test(digits ?? "")) return digits ?? "";
  const time = `${digits.slice(8, 10)}:${digits.slice(10, 12)}:${digits.slice(12, 14)}.${digits.slice(14)}`;
  return withDate ? `${digits.slice(0, 4)}-${digits.slice(4, 6)}-${digits.slice(6, 8)} ${time}` : time;
}
const kindName = (i) => (i.style === "write" ? (i.operation ?? "write").toLowerCase().replaceAll("_", " ") : KINDS[i.style].name);
const stateClass = (i) => (i.state === "completed" ? "good" : i.open && !i.silent ? "wait" : "bad");
function spoken(data, i) {
  const parts = [kindName(i), i.state, data.lanes[i.lane].name, `started ${clock(i.start, false)}`];
  if (!i.open) parts.push(`took ${took(i.t1 - i.t0)}`);
  if (i.silent) parts.push("silent: may be rolled back");
  if (i.rows !== undefined) parts.push(`${count(i.rows)} rows`);
  if (i.late) parts.push("finished late: lands in the next slice");
  return parts.join(", ");
}

/** An element with text and children; text is only ever text. */
function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "class") made.className = value;
    else made.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat(2)) if (child !== null && child !== undefined && child !== false) made.append(child instanceof Node ? child : document.createTextNode(String(child)));
  return made;
}
