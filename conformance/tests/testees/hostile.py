# ruff: noqa: PLW0108, PTH110, PTH123, T201
# pyright: basic, reportUnusedExpression=false
"""A small testee, right in all but one thing: ``hostile.py MODE`` misbehaves at a window of three positions.

Modes that begin with ``start-`` misbehave before the hello is answered. It needs nothing but the standard library.
"""

import base64
import json
import os
import signal
import sys
import time

MODE = sys.argv[1] if len(sys.argv) > 1 else "good"
HELLO = {"protocol": 1, "name": "hostile", "kinds": ["full"], "capabilities": ["reset", "trim", "clone"]}
ITEM = {"bf16": 2, "f16": 2, "f32": 4}
world = {}


def say(answer):
    sys.stdout.write(json.dumps(answer) + "\n")
    if MODE != "start-unflushed":
        sys.stdout.flush()


def raw(data):
    os.write(1, data)


# A growing cache: per row and head the bytes of its columns.


def taken(tensor):
    batch, heads, length, dim = tensor["shape"]
    width, data = dim * ITEM[tensor["dtype"]], base64.b64decode(tensor["base64"])
    return [data[i * length * width : (i + 1) * length * width] for i in range(batch * heads)]


def shown(side, like, columns):
    batch, heads, _, dim = like["shape"]
    text = base64.b64encode(b"".join(side)).decode()
    return {"dtype": like["dtype"], "shape": [batch, heads, columns, dim], "base64": text}


def state(cache):
    return {"offset": cache["offset"]}


def refused(why, **more):
    return {"outcome": "refused", "message": why, **more}


def fits(given):
    keys, values = given["keys"], given["values"]
    return len(keys["shape"]) == 4 and keys["shape"][:3] == values["shape"][:3] and keys["shape"][2] > 0


def append(cache, call, given):
    keys, values = given["keys"], given["values"]
    like = [keys["dtype"], *(t["shape"][axis] for t in (keys, values) for axis in (0, 1, 3) if fits(given))]
    if not fits(given) or (call["call"] == "decode" and keys["shape"][2] != 1) or cache.get("like", like) != like:
        return refused("these tensors do not fit")
    cache["like"] = like
    for name, tensor in (("keys", keys), ("values", values)):
        new = taken(tensor)
        cache[name] = [a + b for a, b in zip(cache.get(name, [b""] * len(new)), new, strict=True)]
    cache["offset"] += keys["shape"][2]
    read = {name: shown(cache[name], given[name], cache["offset"]) for name in ("keys", "values")}
    if call.get("as"):
        world[call["as"]] = read
    return {"outcome": "ok", "read": read, "state": state(cache)}


def trim(cache, n):
    if not isinstance(n, int) or not 0 <= n <= cache["offset"]:
        return refused("so many positions cannot be dropped")
    for name in ("keys", "values"):
        if cache["offset"]:
            cache[name] = [side[: len(side) // cache["offset"] * (cache["offset"] - n)] for side in cache[name]]
    cache["offset"] -= n
    return {"outcome": "ok", "answer": n, "state": state(cache)}


def call(message):
    asked = message["call"]
    cache = world.get(asked["on"])
    if cache is None:
        return refused("nothing has this name")
    if "offset" not in cache:
        return {"outcome": "ok", "read": cache}
    if asked["call"] in ("decode", "window"):
        return append(cache, asked, message["tensors"])
    if asked["call"] == "trim":
        return trim(cache, asked["n"])
    if asked["call"] == "clone":
        world[asked["as"]] = {**cache}
    elif asked["call"] == "reset":
        cache.clear()
        cache["offset"] = 0
    elif asked["call"] != "look":
        return {"outcome": "unsupported", "message": "there is no such call"}
    return {"outcome": "ok", "state": state(cache)}


def answered(message):
    if "hello" in message:
        return {"outcome": "ok", "hello": HELLO}
    if "open" in message:
        world.clear()
        config = message["open"]
        wrong = config["kind"] != "full" or "window" in config or config["sinks"] or "start" in config
        if wrong or "value_bits" in config:
            return refused("it cannot be built")
        world["c0"] = {"offset": 0}
        return {"outcome": "ok", "state": {"offset": 0}}
    return call(message) if "call" in message else {"outcome": "unsupported"}


# What goes wrong.


def tensor(dtype="bf16", shape=(1, 2, 3, 64), data=None):
    size = 2
    for length in shape:
        size *= length
    return {
        "dtype": dtype,
        "shape": list(shape),
        "base64": base64.b64encode(bytes(size if data is None else data)).decode(),
    }


def hang():
    while True:
        time.sleep(60)


def flood(number, answer):
    for _ in range(200):
        os.write(2, b"complaint " * 5000 + b"\n")
    say({"id": number, **answer})


def endless():
    while True:
        raw(b"x" * 65536)


def half_line(number, then):
    raw(b'{"id": %d, "outcome": "o' % number)
    os.close(1)
    then()


def heir(number):
    """Leave a child that holds stdout open, and die."""
    if os.fork() == 0:
        hang()
    os.kill(os.getpid(), signal.SIGKILL)


def zombies(number, answer):
    for _ in range(3):
        if os.fork() == 0:
            os._exit(0)
    say({"id": number, **answer})


def deaf(number):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    hang()


def close_stdin(number, answer):
    say({"id": number, **answer})
    os.close(0)
    hang()


def late(number, answer):
    time.sleep(1.5)
    say({"id": number, **answer})


def without(answer, *names):
    return {name: value for name, value in answer.items() if name not in names}


def nested(depth):
    return {"outcome": "ok", "rows": [nested(depth - 1)]} if depth else {"outcome": "ok"}


ANSWERS = {
    "wrong-id": lambda n, a: {"id": n + 7, **a},
    "text-id": lambda n, a: {"id": str(n), **a},
    "no-id": lambda n, a: a,
    "no-outcome": lambda n, a: {"id": n, **without(a, "outcome")},
    "odd-outcome": lambda n, a: {"id": n, **a, "outcome": "fine"},
    "text-offset": lambda n, a: {"id": n, **a, "state": {"offset": "3"}},
    "real-offset": lambda n, a: {"id": n, **a, "state": {"offset": 3.0}},
    "vast-offset": lambda n, a: {"id": n, **a, "state": {"offset": 10**30}},
    "flag-offset": lambda n, a: {"id": n, **a, "state": {"offset": True}},
    "list-state": lambda n, a: {"id": n, **a, "state": [3]},
    "text-flags": lambda n, a: {"id": n, **a, "state": {"can_trim": [True, "no"]}},
    "odd-mask": lambda n, a: {"id": n, **a, "read": {**a["read"], "mask": "diagonal"}},
    "real-mask": lambda n, a: {"id": n, **a, "read": {**a["read"], "mask": tensor("f32", (3, 3), 36)}},
    "byte-mask": lambda n, a: {"id": n, **a, "read": {**a["read"], "mask": {"shape": [1, 1], "base64": "Bw=="}}},
    "odd-dtype": lambda n, a: {"id": n, **a, "read": {"keys": tensor("bf17")}},
    "other-dtype": lambda n, a: {"id": n, **a, "read": {"keys": tensor("f16"), "values": tensor("f16")}},
    "short-tensor": lambda n, a: {"id": n, **a, "read": {"keys": tensor(data=10)}},
    "huge-shape": lambda n, a: {"id": n, **a, "read": {"keys": {"dtype": "bf16", "shape": [2**31] * 8, "base64": ""}}},
    "vast-shape": lambda n, a: {"id": n, **a, "read": {"keys": {"dtype": "bf16", "shape": [10**40], "base64": ""}}},
    "empty-huge": lambda n, a: {
        "id": n,
        **a,
        "read": {"keys": {"dtype": "bf16", "shape": [0, 2**31, 2**31, 2**31], "base64": ""}},
    },
    "minus-shape": lambda n, a: {
        "id": n,
        **a,
        "read": {"keys": {"dtype": "bf16", "shape": [-1, -2], "base64": "AAAA"}},
    },
    "many-axes": lambda n, a: {"id": n, **a, "read": {"keys": {"dtype": "bf16", "shape": [1] * 40, "base64": "AAA="}}},
    "no-base64": lambda n, a: {
        "id": n,
        **a,
        "read": {"keys": {"dtype": "bf16", "shape": [1, 1, 1, 1], "base64": "A?=="}},
    },
    "deep-rows": lambda n, a: {"id": n, **nested(40)},
    "a-list": lambda n, a: [n, a],
}
LINES = {
    "garbage": b"DEBUG: window of three\n",
    "bytes": b"\xff\xfe\x00\n",
    "blank": b"\n",
    "nan": b'{"id": 0, "outcome": "ok", "state": {"offset": NaN}}\n',
    "twice-named": b'{"id": 2, "id": 2, "outcome": "ok"}\n',
    "deep": b"[" * 100000 + b"\n",
    "digits": b'{"id": ' + b"9" * 5000 + b"}\n",
}
ACTS = {
    "exit": lambda n, a: sys.exit(0),
    "exit-3": lambda n, a: (print("out of cheese", file=sys.stderr), sys.exit(3)),
    "kill": lambda n, a: os.kill(os.getpid(), signal.SIGKILL),
    "abort": lambda n, a: os.abort(),
    "hang": lambda n, a: (print("thinking", file=sys.stderr, flush=True), hang()),
    "deaf": lambda n, a: deaf(n),
    "endless": lambda n, a: endless(),
    "half-exit": lambda n, a: half_line(n, lambda: os._exit(0)),
    "half-hang": lambda n, a: half_line(n, hang),
    "heir": lambda n, a: heir(n),
    "late": lambda n, a: late(n, a),
    "two-answers": lambda n, a: raw((json.dumps({"id": n, **a}) + "\n").encode() * 2),
    "noise": lambda n, a: (print("DEBUG"), say({"id": n, **a})),
}
FINE = {"flood": flood, "zombies": zombies, "good": lambda n, a: say({"id": n, **a})}
LATER = {"close-stdin": close_stdin}


def misbehave(number, answer):
    if MODE in ANSWERS:
        say(ANSWERS[MODE](number, answer))
    elif MODE in LINES:
        raw(LINES[MODE])
    else:
        {**ACTS, **FINE, **LATER}[MODE](number, answer)


HELLOS = {
    "start-old": {"protocol": 2},
    "start-odd-kind": {"kinds": ["ful"]},
    "start-odd-word": {"capabilities": ["trimm"]},
    "start-says-phases": {"capabilities": ["phases"]},
    "start-says-mask": {"capabilities": ["mask"]},
    "start-says-attend": {"capabilities": ["attend"]},
}
"""What the hello says otherwise."""


def start():
    if MODE == "start-exit":
        sys.exit("no such model")
    if MODE == "start-mute":
        hang()
    if MODE == "start-noise":
        print("loading ...", flush=True)
    if MODE == "start-bare":
        HELLO.clear()
        HELLO["protocol"] = 1
    if MODE == "start-once":  # the second start fails: the file that the first leaves is there
        path = sys.argv[2]
        if os.path.exists(path):
            sys.exit("started before")
        open(path, "w").close()
    HELLO.update(HELLOS.get(MODE, {}))


def main():
    start()
    for line in sys.stdin:
        message = json.loads(line)
        if "bye" in message:
            break
        asked = message.get("call", {})
        trouble = asked.get("call") == "window" and asked.get("length") == 3
        if trouble and MODE == "start-once":
            sys.exit(1)
        if trouble and not MODE.startswith("start-"):
            misbehave(message["id"], answered(message))
        else:
            say({"id": message["id"], **answered(message)})


if __name__ == "__main__":
    main()
