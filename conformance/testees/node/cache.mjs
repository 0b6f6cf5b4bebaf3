// A growing cache and a sliding-window ring with sinks, over bytes: the part that a vendor already has.
//
// A cache never looks into its tensors: a column is the bytes of one position, in each row and head. Every operation
// checks first (and refuses before anything has changed), plans with integers, then moves bytes.

const STEP = 256; // columns that an allocation adds
const ITEM = { bf16: 2, f16: 2, f32: 4 };

/** A call that is turned down before anything has changed. */
export class Refusal extends Error {}

function refuse(condition, text) {
  if (condition) throw new Refusal(text);
}

const range = (start, end) => Array.from({ length: Math.max(0, end - start) }, (_, i) => start + i);

/** Columns of keys or values: `bytes` of `rows` (batch x heads) times `columns` times `width` bytes. */
class Plane {
  constructor(shape, dtype, bytes) {
    [this.batch, this.heads, this.columns, this.dim] = shape;
    this.dtype = dtype;
    this.rows = this.batch * this.heads;
    this.width = this.dim * ITEM[dtype];
    this.bytes = bytes ?? new Uint8Array(this.rows * this.columns * this.width);
  }

  get shape() {
    return [this.batch, this.heads, this.columns, this.dim];
  }

  /** A new plane of these columns, in this order; -1 is a column of zeros. */
  taken(columns) {
    const { width } = this;
    const out = new Plane([this.batch, this.heads, columns.length, this.dim], this.dtype);
    for (let row = 0; row < this.rows; row++) {
      columns.forEach((column, i) => {
        if (column < 0) return;
        const from = (row * this.columns + column) * width;
        out.bytes.set(this.bytes.subarray(from, from + width), (row * columns.length + i) * width);
      });
    }
    return out;
  }

  /** Write the columns of another plane at a column. */
  write(at, other) {
    const count = other.columns * this.width;
    for (let row = 0; row < this.rows; row++) {
      const from = row * count;
      this.bytes.set(other.bytes.subarray(from, from + count), (row * this.columns + at) * this.width);
    }
  }

  /** A copy; as a view of the same memory (`subarray`) it would be a fault. */
  copy(asView) {
    return new Plane(this.shape, this.dtype, asView ? this.bytes.subarray() : this.bytes.slice());
  }
}

/** The cache. `window` undefined: it grows for ever. `faults` names the mistakes that are switched on. */
export class Cache {
  constructor(layer, faults = new Set()) {
    const { kind, window, sinks = 0 } = layer;
    const policed = ['bits', 'value_bits', 'start', 'conv'].some((name) => layer[name] !== undefined);
    refuse(policed, 'it holds tensors alone: no bits, no start, no convolution');
    refuse(kind === 'full' && (window !== undefined || sinks !== 0), 'a growing cache takes no window and no sinks');
    refuse(kind === 'ring' && !(window >= 1), `a ring needs a window of at least 1, not ${window}`);
    refuse(kind === 'ring' && !(sinks >= 0 && sinks < window), `${sinks} sinks in a window of ${window}`);
    Object.assign(this, { kind, window, sinks, faults });
    this.reset();
  }

  reset() {
    this.keys = this.values = null;
    this.columns = this.writeIndex = this.offset = this.block = 0;
    this.rotated = false;
  }

  get isRing() {
    return this.window !== undefined;
  }

  get active() {
    return !this.isRing ? this.offset : this.rotated ? this.window : this.writeIndex;
  }

  get bytesPerToken() {
    return this.keys ? this.keys.heads * (this.keys.width + this.values.width) : 0;
  }

  get nbytes() {
    return this.keys ? this.keys.bytes.length + this.values.bytes.length : 0;
  }

  /** The columns that hold a position, oldest first: the sinks, then from the write index on, then up to it. */
  temporal() {
    if (!this.isRing || !this.rotated) return range(0, this.active);
    const { sinks, writeIndex, window } = this;
    return [...range(0, sinks), ...range(writeIndex, window), ...range(sinks, writeIndex)];
  }

  /** The columns before a window that its queries may see, oldest first; the pinned ones stay. */
  history() {
    const columns = this.temporal();
    const excess = Math.max(0, columns.length - (this.window - 1));
    return [...columns.slice(0, this.sinks), ...columns.slice(this.sinks + excess)];
  }

  /** What an append does: `layout`, the columns that stay, in order (-1: a new one); `at`, where it writes; `fetch`. */
  plan(phase, length) {
    if (!this.isRing) return this.planFull(length);
    return phase === 'decode' ? this.planDecode() : this.planBlock(length);
  }

  planFull(length) {
    const end = this.offset + length;
    const columns = end <= this.columns ? this.columns : Math.ceil(end / STEP) * STEP;
    const layout = end <= this.columns ? null : [...range(0, this.offset), ...range(this.offset, columns).fill(-1)];
    return { layout, at: this.offset, fetch: range(0, end), columns, writeIndex: end, rotated: false, block: 0 };
  }

  planDecode() {
    const { window, sinks, columns, writeIndex, rotated } = this;
    const excess = Math.max(0, columns - window);
    const added = rotated || writeIndex < columns ? 0 : Math.max(0, Math.min(STEP, window - columns));
    let layout = null;
    if (excess) layout = [...range(0, sinks), ...range(sinks + excess, columns)];
    if (added) layout = [...range(0, columns), ...range(0, added).fill(-1)];
    const wraps = writeIndex >= window;
    let at = wraps ? sinks : writeIndex;
    if (wraps && this.faults.has('wrap-at-zero')) at = 0; // forgets that the sinks are pinned
    const after = { columns: columns + added - excess, writeIndex: at + 1, rotated: rotated || wraps, block: 0 };
    return { layout, at, fetch: range(0, after.rotated ? window : after.writeIndex), ...after };
  }

  planBlock(length) {
    const kept = this.history();
    const columns = kept.length + length;
    const layout = [...kept, ...range(0, length).fill(-1)];
    return { layout, at: kept.length, fetch: range(0, columns), columns, writeIndex: columns, rotated: false, block: length };
  }

  /** Append keys and values and give what they read: copies of the fetched columns, and the mask. */
  append(keys, values, phase, window, asArray) {
    this.checkTensors(keys, values, phase);
    const length = keys.shape[2];
    const mask = this.mask(length, phase, window, asArray);
    const plan = this.plan(phase, length);
    this.keys = this.moved(this.keys, keys, plan);
    this.values = this.moved(this.values, values, plan);
    const { columns, writeIndex, rotated, block } = plan;
    Object.assign(this, { columns, writeIndex, rotated, block, offset: this.offset + length });
    return { keys: this.keys.taken(plan.fetch), values: this.values.taken(plan.fetch), mask };
  }

  moved(held, tensor, plan) {
    const given = new Plane(tensor.shape, tensor.dtype, tensor.bytes);
    const before = held ?? new Plane([given.batch, given.heads, 0, given.dim], given.dtype);
    const plane = plan.layout ? before.taken(plan.layout) : before;
    plane.write(plan.at, given);
    return plane;
  }

  checkTensors(keys, values, phase) {
    const told = `keys ${keys.shape} and values ${values.shape}`;
    refuse(keys.shape.length !== 4 || values.shape.length !== 4, `${told}: both are [B, H, L, D]`);
    refuse([0, 1, 2].some((axis) => keys.shape[axis] !== values.shape[axis]), `${told} differ in B, H or L`);
    refuse(keys.dtype !== values.dtype || !(keys.dtype in ITEM), `keys of ${keys.dtype}, values of ${values.dtype}`);
    refuse(keys.shape[2] < 1, 'an append needs at least 1 position');
    refuse(phase === 'decode' && keys.shape[2] !== 1, `a decode appends 1 position, not ${keys.shape[2]}`);
    if (!this.keys) return;
    for (const [tensor, held] of [[keys, this.keys], [values, this.values]]) {
      const fits = [0, 1, 3].every((axis) => tensor.shape[axis] === held.shape[axis]);
      refuse(!fits, `a tensor ${tensor.shape}: this cache holds ${held.shape}`);
      refuse(tensor.dtype !== held.dtype, `a tensor of ${tensor.dtype}: this cache holds ${held.dtype}`);
    }
  }

  /** The mask of the append that comes next: 'none', 'causal', or rows of booleans. Nothing changes. */
  mask(length, phase, window, asArray) {
    refuse(!(length >= 1) || (phase === 'decode' && length !== 1), `no mask for a ${phase} of ${length} positions`);
    refuse(window !== undefined && window < 1, `a window argument is at least 1, not ${window}`);
    refuse(this.isRing && this.sinks > 0 && window < this.window, 'a ring with sinks cannot be narrowed');
    const reach = Math.min(this.window ?? Infinity, window ?? Infinity);
    const order = this.orderOfFetch(phase, length);
    if (!asArray && order.length <= reach) return phase === 'decode' ? 'none' : 'causal';
    return range(0, length).map((i) => {
      const own = order.length - length + i;
      return order.map((age) => age <= own && (age < this.sinks || own - age < reach - this.sinks));
    });
  }

  /** For each column of the next fetch its place in temporal order. */
  orderOfFetch(phase, length) {
    if (!this.isRing) return range(0, this.offset + length);
    if (phase !== 'decode') return range(0, Math.min(this.active, this.window - 1) + length);
    const width = Math.min(this.active + 1, this.window);
    if (this.active < this.window) return range(0, width);
    const { sinks } = this;
    const newest = this.writeIndex >= this.window ? sinks : this.writeIndex;
    return range(0, width).map((column) => {
      if (column < sinks) return column;
      return column > newest ? sinks + column - newest - 1 : column + width - newest - 1;
    });
  }

  canTrim(count) {
    if (this.isRing && this.offset >= this.window && !this.faults.has('trim-after-wrap')) return false;
    return Number.isInteger(count) && count >= 0 && count <= this.offset;
  }

  trim(count, bypass) {
    refuse(!Number.isInteger(count) || count < 0, `a trim drops a whole number of positions, not ${count}`);
    if (bypass && this.isRing) return this.cut(count);
    refuse(!this.canTrim(count), `${count} of ${this.offset} positions cannot be dropped`);
    if (this.isRing) this.writeIndex = Math.max(0, this.writeIndex - count);
    if (count > 0) this.block = 0;
    this.offset -= count;
    return count;
  }

  /** Cut columns off the end of the newest window. */
  cut(count) {
    refuse(count > this.block, `${count} columns: the newest window has ${this.block} left`);
    for (const name of ['columns', 'writeIndex', 'offset', 'block']) this[name] -= count;
    this.keys = this.columns ? this.keys.taken(range(0, this.columns)) : null;
    this.values = this.columns ? this.values.taken(range(0, this.columns)) : null;
    return count;
  }

  clone() {
    const twin = Object.assign(Object.create(Cache.prototype), this);
    const shared = this.faults.has('shared-clone');
    return Object.assign(twin, { keys: this.keys?.copy(shared) ?? null, values: this.values?.copy(shared) ?? null });
  }

  /** Hand out the state's arrays, as they are now. */
  state() {
    const shared = this.faults.has('state-is-a-view');
    return this.keys ? { keys: this.keys.copy(shared), values: this.values.copy(shared) } : {};
  }
}
