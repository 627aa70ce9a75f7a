// SPDX-License-Identifier: Apache-2.0
// From times to pixels. Two axes: by the clock, or one step for each event, which shows who overlapped whom.

class Scale {
  constructor(data, mode) { this.data = data; this.mode = mode; [this.low, this.high] = this.range(); this.width = 1; this.left = 0; }

  /** All there is, with some air. */
  range() {
    const [a, b] = this.mode === "clock" ? [this.data.first, this.data.last] : [0, Math.max(1, this.data.times.length - 1)];
    const air = (b - a) * 0.02 || 1;
    return [a - air, b + air];
  }

  /** The place of a time on the axis: the time itself, or how many events come before it. */
  unit(t) {
    if (this.mode === "clock") return t;
    const times = this.data.times;
    let low = 0, high = times.length;
    while (low < high) { const mid = (low + high) >> 1; if (times[mid] < t) low = mid + 1; else high = mid; }
    if (times[low] === t || low === 0) return low;
    const before = times[low - 1], after = times[low] ?? before + 1;
    return low - 1 + Math.min(1, (t - before) / (after - before));
  }

  time(unit) {
    if (this.mode === "clock") return unit;
    const times = this.data.times, at = Math.max(0, Math.min(times.length - 1, unit)), low = Math.floor(at);
    return times[low] + (at - low) * ((times[low + 1] ?? times[low]) - times[low]);
  }

  x(t) { return this.left + ((this.unit(t) - this.low) / (this.high - this.low)) * this.width; }
  at(x) { return this.low + ((x - this.left) / this.width) * (this.high - this.low); }

  zoom(factor, x = this.left + this.width / 2) {
    const fixed = this.at(x), span = Math.max(this.smallest(), Math.min((this.high - this.low) * factor, this.widest()));
    const share = (fixed - this.low) / (this.high - this.low);
    this.show(fixed - share * span, fixed + (1 - share) * span);
  }

  pan(pixels) { const by = (pixels / this.width) * (this.high - this.low); this.show(this.low + by, this.high + by); }

  /** Shows this stretch, moved so far that it stays over the data. */
  show(low, high) {
    const [a, b] = this.range(), span = high - low;
    const centre = Math.max(a, Math.min(b, (low + high) / 2));
    this.low = centre - span / 2; this.high = centre + span / 2;
  }

  smallest() { return this.mode === "clock" ? 5 : 4; }
  widest() { const [a, b] = this.range(); return (b - a) * 1.4; }

  /** Ticks with their labels, none nearer to the next than `gap` pixels. */
  ticks(gap) {
    if (this.mode !== "clock") return this.evenTicks(gap);
    const span = this.high - this.low, wanted = (span * gap) / this.width;
    const steps = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 1.5e4, 3e4, MINUTE, 2 * MINUTE, 5 * MINUTE, 10 * MINUTE, 15 * MINUTE, 30 * MINUTE, HOUR, 2 * HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, DAY, 2 * DAY, 7 * DAY, 14 * DAY, 30 * DAY, 90 * DAY, 365 * DAY];
    const step = steps.find((s) => s >= wanted) ?? steps.at(-1);
    const found = [];
    const shift = this.data.shift;
    for (let t = Math.ceil((this.low + shift) / step) * step - shift; t <= this.high; t += step) found.push([this.x(t), this.label(t, step)]);
    return found;
  }

  evenTicks(gap) {
    const found = [], step = Math.max(1, Math.ceil(((this.high - this.low) * gap) / this.width));
    for (let at = Math.max(0, Math.ceil(this.low / step) * step); at <= Math.min(this.high, this.data.times.length - 1); at += step)
      found.push([this.left + ((at - this.low) / (this.high - this.low)) * this.width, this.label(this.data.times[at], 1000)]);
    return found;
  }

  /** In the zone of the table's own times, so that labels and instants agree. */
  label(t, step) {
    const iso = new Date(t + this.data.shift).toISOString();
    if (step >= DAY) return iso.slice(0, 10);
    if (step >= MINUTE) return iso.slice(11, 16) === "00:00" ? iso.slice(5, 10) : iso.slice(11, 16);
    return step >= 1000 ? iso.slice(11, 19) : iso.slice(14, 23);
  }
}

/** By how much the table's zone is ahead of UTC, from the digits of an instant and its moment. */
function zoneShift(instants) {
  for (const i of instants) {
    const m = /^(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)(\d{3})$/.exec(i.start);
    if (m && i.t0 !== undefined) return Date.UTC(m[1], m[2] - 1, m[3], m[4], m[5], m[6], m[7]) - i.t0;
  }
  return 0;
}
