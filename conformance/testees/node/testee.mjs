#!/usr/bin/env node
// The cache of cache.mjs as a testee of kvlaw: one JSON message a line on stdin, one answer a line on stdout.
//
//   kvlaw testee smoke 'cmd:node testee.mjs'
//   kvlaw check 'cmd:node testee.mjs'
//   kvlaw check 'cmd:node testee.mjs --fault=shared-clone'      a mistake switched on: it is found

import { Cache, Refusal } from './cache.mjs';

const FAULTS = ['trim-after-wrap', 'shared-clone', 'state-is-a-view', 'wrap-at-zero'];
const HELLO = {
  protocol: 1,
  name: 'kvlaw-node',
  kinds: ['full', 'ring'],
  capabilities: [
    'phases', 'mask', 'as_array', 'window_argument', 'dense', 'planes', 'columns', 'size', 'nbytes', 'bytes_per_token',
    'identity', 'storage', 'trim', 'can_trim', 'bypass', 'clone', 'state', 'reset', 'sinks',
  ],
};

/** A call that there is not. */
class Unsupported extends Error {}

function faultsOf(words) {
  const faults = words.filter((word) => word.startsWith('--fault=')).map((word) => word.slice('--fault='.length));
  const unknown = [...words.filter((word) => !word.startsWith('--fault=')), ...faults.filter((f) => !FAULTS.includes(f))];
  if (unknown.length > 0) {
    console.error(`unknown: ${unknown.join(', ')}; there is --fault=NAME, with ${FAULTS.join(', ')}`);
    process.exit(2);
  }
  return new Set(faults);
}

const faults = faultsOf(process.argv.slice(2));
let config = {};
let world = new Map(); // name -> { cache } or { read } or { arrays } or { mask }

// Tensors are little-endian bytes, which is how they are kept.
const decode = ({ dtype, shape, base64 }) => ({ dtype, shape, bytes: new Uint8Array(Buffer.from(base64, 'base64')) });

const encode = (plane) => ({
  dtype: plane.dtype,
  shape: plane.shape,
  base64: Buffer.from(plane.bytes.buffer, plane.bytes.byteOffset, plane.bytes.length).toString('base64'),
});

function encodeMask(mask) {
  if (typeof mask === 'string') return mask; // none or causal
  const bytes = Uint8Array.from(mask.flat(), (seen) => (seen ? 1 : 0));
  return { dtype: 'bool', shape: [mask.length, mask[0].length], base64: Buffer.from(bytes).toString('base64') };
}

function stateOf(cache) {
  const planes = cache.keys ? { keys: encode(cache.keys), values: encode(cache.values) } : {};
  return {
    offset: cache.offset,
    size: Math.min(cache.offset, cache.window ?? Infinity),
    nbytes: cache.nbytes,
    columns: cache.columns,
    bytes_per_token: cache.bytesPerToken,
    identity: cache.isRing ? `ring(window=${cache.window},sinks=${cache.sinks})` : 'full',
    storage: 'dense',
    can_trim: Array.from({ length: cache.offset + 2 }, (_, n) => cache.canTrim(n)),
    write_index: cache.writeIndex,
    ...planes,
  };
}

const readOf = (read) => ({ keys: encode(read.keys), values: encode(read.values), mask: encodeMask(read.mask) });
const arraysOf = (arrays) => Object.fromEntries(Object.entries(arrays).map(([name, plane]) => [name, encode(plane)]));

/** Everything that there is to see of an object. */
function shown({ cache, read, arrays, mask }) {
  if (cache) return { state: stateOf(cache) };
  if (read) return { read: readOf(read) };
  if (mask) return typeof mask === 'string' ? {} : { arrays: { mask: encodeMask(mask) } };
  return { arrays: arraysOf(arrays) };
}

function append(cache, call, tensors) {
  const [keys, values] = [decode(tensors.keys), decode(tensors.values)];
  const dense = call.call === 'dense'; // one position is written as a decode
  const phase = dense ? (keys.shape[2] === 1 ? 'decode' : 'window') : call.call;
  const read = cache.append(keys, values, phase, call.window, call.array);
  if (config.poison) [keys, values].forEach((tensor) => tensor.bytes.fill(0x7f)); // the caller goes on with its arrays
  const handed = dense ? { arrays: { keys: read.keys, values: read.values } } : { read };
  if (call.as) world.set(call.as, handed);
  return shown(handed);
}

const ON_CACHE = {
  decode: append,
  window: append,
  dense: append,
  look: () => ({}),
  reset: (cache) => void cache.reset(),
  trim: (cache, call) => ({ answer: cache.trim(call.n, call.bypass) }),
  mask(cache, call) {
    const mask = cache.mask(call.length, call.phase, call.window, call.array);
    if (call.as) world.set(call.as, { mask });
    return { mask: encodeMask(mask) };
  },
  clone(cache, call) {
    const twin = cache.clone();
    world.set(call.as, { cache: twin });
    return { state: stateOf(twin) };
  },
  state(cache, call) {
    const arrays = cache.state();
    world.set(call.as, { arrays });
    return { arrays: arraysOf(arrays) };
  },
};

function apply({ call, tensors = {} }) {
  const thing = world.get(call.on);
  if (!thing) throw new Refusal(`nothing is called ${call.on}`);
  if (call.call === 'drop') return void world.delete(call.on);
  if (!thing.cache && (call.call === 'look' || call.call === 'attend')) return shown(thing);
  if (!thing.cache || !(call.call in ON_CACHE)) throw new Unsupported(`there is no call ${call.call} on ${call.on}`);
  const seen = ON_CACHE[call.call](thing.cache, call, tensors);
  return { state: stateOf(thing.cache), ...seen };
}

function open(given) {
  config = given;
  world = new Map([['c0', { cache: new Cache(given, faults) }]]);
  return shown(world.get('c0'));
}

function answered(message) {
  try {
    if (message.hello) return { outcome: 'ok', hello: HELLO };
    if (message.open) return { outcome: 'ok', ...open(message.open) };
    if (message.call) return { outcome: 'ok', ...apply(message) };
    return { outcome: 'unsupported', message: 'a message that there is not' };
  } catch (error) {
    if (error instanceof Refusal) return { outcome: 'refused', message: error.message };
    if (error instanceof Unsupported) return { outcome: 'unsupported', message: error.message };
    return { outcome: 'error', message: String(error.stack ?? error) };
  }
}

let rest = '';
process.stdin.setEncoding('utf8');
process.stdin.on('data', (piece) => {
  const lines = (rest + piece).split('\n');
  rest = lines.pop();
  for (const line of lines) {
    const message = JSON.parse(line);
    if (message.bye) process.exit(0);
    process.stdout.write(`${JSON.stringify({ id: message.id, ...answered(message) })}\n`);
  }
});
