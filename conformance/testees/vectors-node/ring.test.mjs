// node --test: one test per vector, which asserts what the vector expects; the results are for kvlaw vectors judge.
// VECTORS and RESULTS name the files, FAULT plants a fault of ring_cache.mjs.

import assert from "node:assert/strict";
import { after, test } from "node:test";
import { decoded, readVectors, replay, writeResults } from "./replay.mjs";

const { header, tables, vectors } = readVectors(process.env.VECTORS ?? "vectors.jsonl");
const results = [];

for (const vector of vectors)
  test(vector.id, () => {
    const result = replay(vector, tables, process.env.FAULT);
    results.push(result);
    holds(result.open, vector.open, vector);
    result.observations.forEach((observation, i) => {
      if (vector.asks[i].expect) holds(observation, vector.asks[i].expect, vector);
    });
  });

after(() => writeResults(process.env.RESULTS ?? "results.jsonl", header, "the example ring", results));

function holds(observation, expected, vector) {
  assert.equal(observation.outcome, expected.outcome, observation.message);
  if (observation.state && "offset" in expected) assert.equal(observation.state.offset, expected.offset);
  if (observation.read && expected.sees) assert.deepEqual(seen(observation.read, vector), expected.sees.map(listed));
}

// The ids that each query sees, by the bytes of the fetched keys of the first head and by the mask.
function seen({ keys, mask }, vector) {
  const { bytes, shape, size } = decoded(keys);
  const width = shape[3] * size;
  const ids = Array.from({ length: shape[2] }, (_, c) => idOf(bytes.subarray(c * width, (c + 1) * width), vector));
  const visible = decoded(mask).bytes;
  const row = (q) => ids.filter((_, c) => visible[q * shape[2] + c]).sort((a, b) => a - b);
  return Array.from({ length: mask.shape[0] }, (_, q) => row(q));
}

function idOf(column, vector) {
  const { bytes, shape, size } = tables.get(vector.table).keys;
  const stride = shape[1] * shape[2] * shape[3] * size;
  const same = (t) => column.every((byte, i) => byte === bytes[t * stride + i]);
  return Array.from({ length: shape[0] }, (_, t) => t).find((t) => t > 0 && same(t)) ?? 0;
}

function listed(ranges) {
  return ranges.flatMap(([first, last]) => Array.from({ length: last - first + 1 }, (_, i) => first + i));
}
