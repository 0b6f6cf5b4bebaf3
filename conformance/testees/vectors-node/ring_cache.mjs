// A sliding-window cache with attention sinks: what an inference runtime in JavaScript would have.
//
// Keys and values are bytes, [batch, heads, columns, width]. One position is written in place, over the oldest that is
// no sink, once `window` columns are there; several are put behind the newest `window - 1`, in the order of their
// positions. `positions[c]` is the position that column c holds; who sees what follows from it.

export class Refused extends Error {}

export class RingCache {
  // `shape` is {batch, heads, keyWidth, valueWidth}, widths in bytes; `fault` plants one (see FAULTS).
  constructor({ window, sinks = 0, shape, fault = "" }) {
    if (!Number.isInteger(window) || window < 1) throw new Refused(`a window of ${window}`);
    if (!Number.isInteger(sinks) || sinks < 0 || sinks >= window) throw new Refused(`${sinks} sinks of ${window}`);
    Object.assign(this, { window, sinks, shape, fault });
    this.reset();
  }

  reset() {
    this.offset = 0;
    this.positions = [];
    this.keys = this.values = new Uint8Array(0);
  }

  clone() {
    const twin = new RingCache(this);
    twin.offset = this.offset;
    twin.positions = this.fault === "shared-clone" ? this.positions : [...this.positions];
    twin.keys = this.fault === "shared-clone" ? this.keys : this.keys.slice();
    twin.values = this.fault === "shared-clone" ? this.values : this.values.slice();
    return twin;
  }

  canTrim(n) {
    return n >= 0 && n <= this.offset && (n === 0 || this.positions.length < this.window);
  }

  trim(n) {
    if (!Number.isInteger(n) || (!this.canTrim(n) && this.fault !== "trims-a-full-ring")) throw new Refused(`trim ${n}`);
    this.keep(this.ordered().filter((c) => this.positions[c] < this.offset - n));
    this.offset -= n;
    return n;
  }

  // Append keys and values of `length` positions; give what its queries attend: a copy, which never changes.
  append(keys, values, length) {
    this.check(keys, values, length);
    if (length === 1) this.write(keys, values);
    else this.extend(keys, values, length);
    const queries = Array.from({ length }, (_, i) => this.offset - length + i);
    const mask = Uint8Array.from(queries.flatMap((q) => this.positions.map((p) => (this.sees(q, p) ? 1 : 0))));
    return { keys: this.keys.slice(), values: this.values.slice(), mask, length, columns: this.positions.length };
  }

  sees(query, position) {
    if (position > query) return false;
    const reach = this.fault === "wide-mask" ? this.window + 1 : this.window;
    return query < reach || position < this.sinks || query - position < reach - this.sinks;
  }

  check(keys, values, length) {
    const { batch, heads, keyWidth, valueWidth } = this.shape;
    const whole = [keys, values].every((t) => t.shape.length === 4 && t.shape[0] === batch && t.shape[1] === heads);
    const long = keys.shape[2] === length && values.shape[2] === length && length > 0;
    const wide = keys.shape[3] * keys.size === keyWidth && values.shape[3] * values.size === valueWidth;
    if (!whole || !long || !wide) throw new Refused(`keys ${keys.shape} and values ${values.shape}`);
  }

  write(keys, values) {
    if (this.positions.length > this.window) this.keep(this.newest(this.window));
    if (this.positions.length < this.window) return this.extend(keys, values, 1);
    const column = this.positions.indexOf(Math.min(...this.positions.filter((p) => p >= this.sinks)));
    this.keys = this.put(this.keys, keys.bytes, this.shape.keyWidth, column);
    this.values = this.put(this.values, values.bytes, this.shape.valueWidth, column);
    this.positions[column] = this.offset++;
  }

  extend(keys, values, length) {
    const room = this.fault === "forgets-early" && length > 1 ? this.window - 2 : this.window - 1;
    this.keep(this.newest(Math.max(room, this.sinks)));
    const { keyWidth, valueWidth } = this.shape;
    this.keys = this.joined(this.keys, keys.bytes, keyWidth, length);
    this.values = this.joined(this.values, values.bytes, valueWidth, length);
    for (let i = 0; i < length; i++) this.positions.push(this.offset++);
  }

  // Columns, in the order of their positions.
  ordered() {
    return this.positions.map((_, c) => c).sort((a, b) => this.positions[a] - this.positions[b]);
  }

  // The columns of the sinks and of the newest positions, `count` of them at most.
  newest(count) {
    const columns = this.ordered();
    if (columns.length <= count) return columns;
    return [...columns.slice(0, this.sinks), ...columns.slice(columns.length - (count - this.sinks))];
  }

  keep(columns) {
    this.keys = this.taken(this.keys, this.shape.keyWidth, columns);
    this.values = this.taken(this.values, this.shape.valueWidth, columns);
    this.positions = columns.map((c) => this.positions[c]);
  }

  // Moves of bytes: planes are [lanes, columns, width], a lane is one head of one sequence.
  taken(plane, width, columns) {
    const old = this.positions.length;
    const out = new Uint8Array(this.lanes * columns.length * width);
    for (let lane = 0; lane < this.lanes; lane++)
      columns.forEach((c, i) => {
        const from = (lane * old + c) * width;
        out.set(plane.subarray(from, from + width), (lane * columns.length + i) * width);
      });
    return out;
  }

  joined(plane, bytes, width, length) {
    const old = this.positions.length;
    const out = new Uint8Array(this.lanes * (old + length) * width);
    for (let lane = 0; lane < this.lanes; lane++) {
      const at = lane * (old + length) * width;
      out.set(plane.subarray(lane * old * width, (lane + 1) * old * width), at);
      out.set(bytes.subarray(lane * length * width, (lane + 1) * length * width), at + old * width);
    }
    return out;
  }

  put(plane, bytes, width, column) {
    const out = this.fault === "shared-clone" ? plane : plane.slice();
    for (let lane = 0; lane < this.lanes; lane++)
      out.set(bytes.subarray(lane * width, (lane + 1) * width), (lane * this.positions.length + column) * width);
    return out;
  }

  get lanes() {
    return this.shape.batch * this.shape.heads;
  }
}

export const FAULTS = ["forgets-early", "wide-mask", "trims-a-full-ring", "shared-clone"];
