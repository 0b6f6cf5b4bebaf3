// Reads vectors, replays them on a cache, and writes what was observed: see conformance/docs/vectors.md of kvlaw.
// Nothing here knows the laws; `Replay` is the small world of named objects that a trace acts on.

import { readFileSync, writeFileSync } from "node:fs";
import { Refused, RingCache } from "./ring_cache.mjs";

// What this cache has, as the `needs` of vectors name it; what is not named here is never asked.
export const CAPABILITIES = ["sinks", "trim", "can_trim", "clone", "reset"];

const SIZES = { bf16: 2, f16: 2, f32: 4, bool: 1 };

export function readVectors(path) {
  const [header, ...rest] = readFileSync(path, "utf8").trimEnd().split("\n").map((line) => JSON.parse(line));
  if (header.kvlaw !== "vectors" || header.version !== 1) throw new Error(`${path} is no file of vectors, version 1`);
  const tables = new Map();
  for (const { table, keys, values } of rest.filter((line) => "table" in line && "keys" in line))
    tables.set(table, { keys: decoded(keys), values: decoded(values) });
  const vectors = rest.filter((line) => "id" in line && line.needs.every((need) => CAPABILITIES.includes(need)));
  return { header, tables, vectors };
}

export function writeResults(path, header, target, results) {
  const told = { kvlaw: "results", version: 1, vectors: header, target, capabilities: CAPABILITIES };
  writeFileSync(path, [told, ...results].map((line) => `${JSON.stringify(line)}\n`).join(""));
}

// Replays one vector: {id, open, observations}.
export function replay(vector, tables, fault) {
  const world = new Replay(vector.config, tables.get(vector.table), fault);
  const open = world.answer(() => world.open());
  if (open.outcome !== "ok") return { id: vector.id, open, observations: [] };
  const observations = vector.asks.map((ask) => world.answer(() => world.act(ask), ask));
  return { id: vector.id, open, observations };
}

class Replay {
  constructor(config, table, fault) {
    Object.assign(this, { config, table, fault, objects: new Map() });
  }

  // An exception out of the cache is its refusal, which shows the state that it left; any other is an error.
  answer(act, ask = {}) {
    try {
      return { outcome: "ok", ...act() };
    } catch (error) {
      if (!(error instanceof Refused)) return { outcome: "error", message: String(error) };
      const left = this.objects.get(ask.on ?? "c0") instanceof RingCache && ask.look !== false;
      return { outcome: "refused", message: error.message, ...(left ? { state: this.state(ask.on ?? "c0") } : {}) };
    }
  }

  open() {
    const { window, sinks, dtype, batch, kv_heads, head_dim, value_dim } = this.config;
    const widths = { keyWidth: head_dim * SIZES[dtype], valueWidth: value_dim * SIZES[dtype] };
    const shape = { batch, heads: kv_heads, ...widths };
    this.objects.set("c0", new RingCache({ window, sinks, shape, fault: this.fault }));
    return { state: this.state("c0") };
  }

  act(ask) {
    const name = ask.on ?? "c0";
    const target = this.objects.get(name);
    if (ask.call === "drop") return this.objects.delete(name), {};
    if (ask.call === "attend") return ask.look === false ? {} : { read: this.shown(target) };
    if (ask.call === "decode" || ask.call === "window") return this.append(ask, name, target);
    if (ask.call === "trim") return this.after(ask, name, { answer: target.trim(ask.n) });
    if (ask.call === "clone") return this.objects.set(ask.as, target.clone()), this.after(ask, ask.as, {});
    if (ask.call === "reset") return target.reset(), this.after(ask, name, {});
    if (ask.call === "look") return this.after(ask, name, {});
    throw new Error(`no call ${ask.call}`);
  }

  append(ask, name, cache) {
    const { keys, values } = ask.tensors ? this.handed(ask.tensors) : this.stamped(ask.tokens);
    const read = cache.append(keys, values, ask.call === "decode" ? 1 : ask.length);
    if (this.config.poison) [keys, values].forEach((tensor) => tensor.bytes.fill(77));
    if (ask.as) this.objects.set(ask.as, read);
    return this.after(ask, name, ask.look === false || ask.unread || ask.malformed ? {} : { read: this.shown(read) });
  }

  after(ask, name, told) {
    return ask.look === false || ask.malformed ? told : { ...told, state: this.state(name) };
  }

  state(name) {
    const cache = this.objects.get(name);
    return { offset: cache.offset, can_trim: Array.from({ length: cache.offset + 2 }, (_, n) => cache.canTrim(n)) };
  }

  shown(read) {
    const { batch, kv_heads, head_dim, value_dim, dtype } = this.config;
    return {
      keys: encoded(read.keys, [batch, kv_heads, read.columns, head_dim], dtype),
      values: encoded(read.values, [batch, kv_heads, read.columns, value_dim], dtype),
      mask: encoded(read.mask, [read.length, read.columns], "bool"),
    };
  }

  // Row t of a table [ids, B, H, D] is what token t appends: [B, H, L, D].
  stamped(tokens) {
    const taken = ({ bytes, shape, size }) => {
      const [, B, H, D] = shape;
      const width = D * size;
      const out = new Uint8Array(B * H * tokens.length * width);
      for (let lane = 0; lane < B * H; lane++)
        tokens.forEach((t, i) => {
          const from = (t * B * H + lane) * width;
          out.set(bytes.subarray(from, from + width), (lane * tokens.length + i) * width);
        });
      return { bytes: out, shape: [B, H, tokens.length, D], size };
    };
    return { keys: taken(this.table.keys), values: taken(this.table.values) };
  }

  // Tensors that stand in the ask itself are malformed; this cache knows its dtype, as a typed one would.
  handed({ keys, values }) {
    if (keys.dtype !== this.config.dtype || values.dtype !== this.config.dtype) throw new Refused(`keys of ${keys.dtype}`);
    return { keys: decoded(keys), values: decoded(values) };
  }
}

export function decoded({ dtype, shape, base64 }) {
  return { bytes: new Uint8Array(Buffer.from(base64, "base64")), shape, size: SIZES[dtype] };
}

function encoded(bytes, shape, dtype) {
  return { dtype, shape, base64: Buffer.from(bytes).toString("base64") };
}
