// SPDX-License-Identifier: Apache-2.0
// The panel at the side: what is going on now, or everything about one instant.

function facts(...pairs) {
  const list = el("dl", { class: "facts" });
  for (const [name, value] of pairs) if (value !== undefined && value !== null && value !== "") list.append(el("dt", {}, name), el("dd", {}, value));
  return list;
}

function table(titles, rows, right = []) {
  const cells = (tag, row) => el("tr", {}, row.map((cell, n) => el(tag, { class: right.includes(n) ? "num" : undefined }, cell)));
  return el("table", {}, el("thead", {}, cells("th", titles)), el("tbody", {}, rows.map((row) => cells("td", row))));
}

const SHOWN = 100;
function some(rows, make) {
  const shown = rows.slice(0, SHOWN).map(make);
  return rows.length > SHOWN ? [...shown, el("small", {}, `… and ${count(rows.length - SHOWN)} more`)] : shown;
}

/** A link to another instant. */
function link(data, start, choose, words) {
  const other = data.byStart.get(start);
  return other ? el("button", { class: "link mono", type: "button", onclick: () => choose(other) }, words ?? clock(start, false)) : el("span", { class: "mono" }, words ?? start);
}

function showDetails(side, data, i, choose) {
  const title = el("h2", { tabindex: "-1" }, kindName(i), el("span", { class: `pill ${stateClass(i)}` }, i.state), i.archived && el("span", { class: "pill" }, "archived"));
  const back = el("button", { type: "button", onclick: () => choose(null), title: "Back (Esc)", "aria-label": "Close details" }, "✕");
  const parts = [el("div", { class: "row" }, title, back)];
  if (i.problem) parts.push(el("p", { class: "callout warn" }, i.problem));
  if (i.silent) parts.push(el("p", { class: "callout warn" }, "Its writer is silent: ", i.silent.beat_age_ms === null ? "no heartbeat is there" : `the last heartbeat was ${took(i.silent.beat_age_ms)} ago`, ". `lakebraid rollback` rolls it back; none of its rows is visible."));
  if (i.late) parts.push(el("p", { class: "callout" }, "Finished late: it began before the compaction ", link(data, i.late, choose), " was planned and completed after. Its log files do not belong to what that compaction merges; they land in the slice that it opened (RFC-66)."));
  if (i.by) parts.push(el("p", { class: "callout warn" }, i.why?.why ?? "Aborted, refused because of a conflict, or given up after too long a silence.", i.why?.other && [" In the way: ", link(data, i.why.other, choose), i.why.other_writer ? ` of ${i.why.other_writer}.` : "."]), el("p", { class: "callout" }, "No reader has seen or will see a row of it. Rolled back by ", link(data, i.by, choose), "."));
  parts.push(facts(
    ["start", el("span", { class: "mono" }, clock(i.start))], ["completion", i.completion && el("span", { class: "mono" }, clock(i.completion))],
    [i.open ? "open for" : "took", took(i.t1 - i.t0)], [data.lanes[i.lane].service ? "service" : "writer", data.lanes[i.lane].name], ["operation", i.operation],
    ["rows", i.rows !== undefined ? count(i.rows) : undefined], ["files", i.files && `${count(i.files)}, ${bytes(i.bytes ?? 0)}`],
    ["partitions", i.partitions && (i.partitions.map((p) => p || "(none)").join(", ") + (i.partition_count > i.partitions.length ? `, … ${count(i.partition_count)} in all` : ""))],
    ["replaces", i.replaced && `${count(i.replaced)} file groups`], ["removed", i.removed !== undefined ? `${count(i.removed)} files` : undefined],
    ["note", i.note], ["instant", el("span", { class: "mono" }, i.start)],
  ));
  if (i.victims?.length) parts.push(el("h3", {}, "Rolled back"), el("ul", { class: "things" }, some(i.victims, (v) => el("li", {}, link(data, v, choose)))));
  parts.push(...besides(data, i, choose), ...planOf(data, i), ...madeFiles(data, i));
  side.replaceChildren(...parts);
  return title;
}

function besides(data, i, choose) {
  const others = beside(data, i);
  if (!others.length) return [];
  return [el("h3", {}, `At the same time on the same file groups (${count(others.length)})`), el("ul", { class: "things" }, some(others, (o) =>
    el("li", {}, link(data, o.start, choose, `${kindName(o)} ${clock(o.start, false)}`), el("small", {}, `${data.lanes[o.lane].name}, ${o.state}`))))];
}

function planOf(data, i) {
  if (!i.plan?.length) return [];
  return [el("h3", {}, `Plan (${count(i.plan.length)} file groups)`), table(["file group", "base", "logs"], i.plan.slice(0, SHOWN).map(([g, logs, base]) => [groupName(data, g), base ? "yes" : "–", count(logs)]), [2])];
}

function madeFiles(data, i) {
  const files = filesOf(data, i);
  if (!files.length) return i.files ? [el("h3", {}, "Files"), el("p", {}, "Too many files to name them all; these are left out.")] : [];
  return [el("h3", {}, `Files (${count(files.length)})`), table(["file", "rows", "size"], files.slice(0, SHOWN).map((at) => {
    const [group, , , , size, rows] = data.files[at];
    return [el("span", {}, el("span", { class: "mono" }, fileName(data, at)), el("small", {}, data.groups[group][0] ? ` in ${data.groups[group][0]}` : "")), rows === null ? "" : count(rows), bytes(size)];
  }), [1, 2])];
}

function groupName(data, g) { const [partition, id] = data.groups[g]; return partition ? `${partition} / ${id}` : id; }

/** What is going on in the table: who writes, what is planned, who holds files back, and what to run. */
function showNow(side, data, choose) {
  const s = data.status, parts = [el("div", { class: "row" }, el("h2", { tabindex: "-1" }, "Now", el("span", { class: `pill ${s?.advice.length ? "wait" : "good"}` }, s ? (s.advice.length ? "something to run" : "nothing to run") : "unknown")))];
  for (const problem of data.problems) parts.push(el("p", { class: "callout warn" }, problem));
  if (data.left_out.instants) parts.push(el("p", { class: "callout" }, `${count(data.left_out.instants)} older instants are not shown.`));
  if (!s) { side.replaceChildren(...parts); return; }
  const list = (title, rows, make) => { if (rows.length) parts.push(el("h3", {}, `${title} (${count(rows.length)})`), el("ul", { class: "things" }, some(rows, make))); };
  list("What to run", s.advice, (a) => el("li", {}, el("code", {}, a.command), el("small", {}, a.reason)));
  list("Open writes", s.writers, (w) => el("li", {}, link(data, w.instant, choose), " ", w.writer ?? "", " ", w.is_silent ? el("span", { class: "pill bad" }, "silent") : "", el("small", {}, `open for ${took(w.age_ms)}; `, w.beat_age_ms === null ? "no heartbeat" : `heartbeat ${took(w.beat_age_ms)} ago`), beat(w)));
  list("Plans", s.plans, (p) => el("li", {}, link(data, p.instant, choose, `${p.kind} ${clock(p.instant, false)}`), " ", el("span", { class: `pill ${p.is_claimed && !p.is_silent ? "good" : "wait"}` }, p.is_claimed ? (p.is_silent ? "executor silent" : "claimed") : "waits"), el("small", {}, `${p.groups === null ? "cannot be read" : `${count(p.groups)} file groups`}; planned ${took(p.age_ms)} ago${p.is_removable ? "; removable" : ""}`)));
  list("Rollbacks under way", Object.entries(s.rollbacks), ([start, victim]) => el("li", {}, link(data, start, choose), el("small", {}, `rolls back ${victim}`)));
  list("Cleans under way", s.cleans, (start) => el("li", {}, link(data, start, choose)));
  list("Restores under way", s.restores, (start) => el("li", {}, link(data, start, choose)));
  list("Readers that hold files", s.leases, (h) => el("li", {}, h.name, el("small", {}, `reads as of ${clock(h.time)}, ${took(h.age_ms)} ago`)));
  list("Consumers", s.consumers, (h) => el("li", {}, h.name, el("small", {}, `at ${clock(h.time)}, ${took(h.age_ms)} behind now`)));
  parts.push(el("h3", {}, "Table"), facts(
    ["last change", s.completion_time && clock(s.completion_time)], ["logs", `${count(s.compaction.logs)} on ${count(s.compaction.groups)} groups, ${bytes(s.compaction.bytes)}`],
    ["oldest log", s.compaction.logs ? took(s.compaction.oldest_ms) : undefined], ["due", `${count(s.compaction.due_groups)} groups`],
    ["timeline", `${count(s.archival.writes)} writes, archived beyond ${count(s.archival.writes_max)}`], ["held back", s.archival.held_back_by], ["Hudi's lock", s.lock],
    ["keys", data.table.record_keys.join(", ")], ["ordered by", data.table.ordering_fields.join(", ") || "last writer"], ["partitions", data.table.partition_fields.join(", ") || "none"], ["buckets", data.table.buckets ?? undefined]));
  side.replaceChildren(...parts);
}

function beat(w) {
  const made = el("span", { class: `beat ${w.is_silent ? "silent" : ""}`, "aria-hidden": "true" }, el("i"));
  made.firstChild.style.width = `${w.beat_age_ms === null ? 0 : Math.max(4, 100 - w.beat_age_ms / 1200)}%`;
  return made;
}
