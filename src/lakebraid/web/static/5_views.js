// SPDX-License-Identifier: Apache-2.0
// The two other views: file slices as stacks, and the instants as a list of which only the visible part exists.

const GROUPS_SHOWN = 120;

function showSlices(root, data, words, selected, choose, all = false) {
  const byGroup = new Map();
  for (const slice of data.slices) { if (!byGroup.has(slice[0])) byGroup.set(slice[0], []); byGroup.get(slice[0]).push(slice); }
  const match = ([g]) => !words || groupName(data, g).toLowerCase().includes(words) || false;
  const groups = [...byGroup].filter(words ? match : () => true);
  const chosen = groups.length ? groups : [...byGroup];
  const parts = [el("p", { class: "hint" }, data.slices.length ? "Each stack is a file slice: its base file at the bottom, the log files that completed after it on top. The last stack is what readers see; those before it wait for a clean. A framed log finished late: it began before the compaction that opened its slice." : "There are no files yet.")];
  let partition = null, box = null;
  for (const [g, slices] of all ? chosen : chosen.slice(0, GROUPS_SHOWN)) {
    if (data.groups[g][0] !== partition) { partition = data.groups[g][0]; box = el("div", { class: "groups" }); parts.push(el("h2", {}, partition || "not partitioned"), box); }
    box.append(groupCard(data, g, slices, selected, choose));
  }
  if (!all && chosen.length > GROUPS_SHOWN) parts.push(el("p", {}, el("button", { type: "button", onclick: () => showSlices(root, data, words, selected, choose, true) }, `Show all ${count(chosen.length)} file groups`)));
  root.replaceChildren(...parts);
}

function groupCard(data, g, slices, selected, choose) {
  const seen = Math.max(0, slices.findLastIndex((s) => s[2] !== null));
  const stacks = slices.map((slice, n) => stack(data, slice, n < seen, selected, choose));
  return el("div", { class: "group" }, el("h3", { title: groupName(data, g) }, data.groups[g][1]), el("div", { class: "stacks" }, stacks));
}

function stack(data, [, barrier, base, logs], old, selected, choose) {
  const made = el("div", { class: `stack ${old ? "old" : "now"}` });
  if (logs.length > 14) made.append(el("span", { class: "cap" }, `+ ${count(logs.length - 14)} logs`));
  for (const at of logs.slice(-14).reverse()) made.append(fileButton(data, at, barrier, selected, choose));
  if (base !== null) made.append(fileButton(data, base, barrier, selected, choose));
  else if (!logs.length || data.byStart.get(barrier)?.open) made.append(el("span", { class: "file none" }, "base planned"));
  made.append(el("span", { class: "cap", title: `opened by ${barrier}` }, clock(barrier, false).slice(0, 8)));
  return made;
}

function fileButton(data, at, barrier, selected, choose) {
  const [, maker, kind, , size, rows] = data.files[at], instant = typeof maker === "number" ? data.instants[maker] : null;
  const late = kind === "log" && instant && instant.start < barrier && data.byStart.get(barrier)?.kind === "compaction";
  const words = kind === "base" ? bytes(size) : `${instant ? data.lanes[instant.lane].name : "archived"}`;
  const button = el("button", { type: "button", class: `file ${kind}${late ? " late" : ""}${instant && instant === selected ? " on" : ""}`, title: `${fileName(data, at)}\n${rows === null ? "" : `${count(rows)} rows, `}${bytes(size)}${instant ? `\nmade by ${kindName(instant)} ${instant.start}, ${data.lanes[instant.lane].name}` : ""}${late ? "\nfinished late" : ""}`, onclick: () => instant && choose(instant) }, words);
  if (kind === "base") button.style.height = `${Math.round(Math.min(64, 20 + Math.log2(1 + size / 4096) * 4))}px`;
  return button;
}

// ---- the list --------------------------------------------------------------------------------------------------------

const LINE = 26;
const COLUMNS = [["start", (d, i) => clock(i.start), ""], ["completion", (d, i) => clock(i.completion ?? "", false), ""], ["took", (d, i) => took(i.t1 - i.t0), "num"], ["kind", (d, i) => kindName(i), ""], ["state", (d, i) => i.state, ""], ["writer", (d, i) => d.lanes[i.lane].name, ""], ["rows", (d, i) => (i.rows === undefined ? "" : count(i.rows)), "num"], ["files", (d, i) => (i.files === undefined ? "" : count(i.files)), "num"], ["bytes", (d, i) => (i.bytes === undefined ? "" : bytes(i.bytes)), "num"]];

class List {
  constructor(root, choose) {
    this.choose = choose;
    this.body = el("div", { class: "body", role: "listbox", "aria-label": "Instants, newest first", tabindex: "0", onscroll: () => this.draw() });
    root.replaceChildren(el("div", { class: "head", "aria-hidden": "true" }, COLUMNS.map(([name, , kind]) => el("span", { class: kind }, name))), this.body);
  }

  show(data, hits, selected) {
    Object.assign(this, { data, hits, selected });
    this.rows = (hits ? data.instants.filter((i) => hits.has(i.at)) : data.instants).slice().reverse();
    this.draw();
  }

  draw() {
    if (!this.rows) return;
    const from = Math.max(0, Math.floor(this.body.scrollTop / LINE) - 8), to = Math.min(this.rows.length, from + Math.ceil(this.body.clientHeight / LINE) + 16);
    const spacer = el("div", { role: "presentation" }); spacer.style.height = `${this.rows.length * LINE}px`;
    this.body.replaceChildren(spacer, ...this.rows.slice(from, to).map((i, n) => this.line(i, from + n)));
  }

  line(i, at) {
    const made = el("div", { class: `line${i === this.selected ? " on" : ""}`, role: "option", "aria-selected": String(i === this.selected), "aria-label": spoken(this.data, i), onclick: () => this.choose(i) }, COLUMNS.map(([, value, kind]) => el("span", { class: kind }, value(this.data, i))));
    made.style.top = `${at * LINE}px`;
    return made;
  }

  reveal(i) {
    const at = this.rows?.indexOf(i) ?? -1;
    if (at >= 0 && (at * LINE < this.body.scrollTop || (at + 1) * LINE > this.body.scrollTop + this.body.clientHeight)) this.body.scrollTop = (at - 4) * LINE;
  }
}
