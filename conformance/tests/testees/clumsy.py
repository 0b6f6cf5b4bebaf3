# pyright: basic
"""A testee whose cache is right and whose glue is not: ``clumsy.py MODE``; the rest is that of ``hostile.py``."""

import base64
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120
MODE = sys.argv.pop(1)
import hostile  # noqa: E402  # pyright: ignore[reportMissingImports]  # it lies beside this file

before = {}


def respelt(tensor):
    data = base64.b64decode(tensor["base64"])
    if MODE == "swaps-bytes":
        data = b"".join(data[i : i + 2][::-1] for i in range(0, len(data), 2))
    if MODE == "through-floats":  # NaNs come back as another NaN
        pairs = [data[i : i + 2] for i in range(0, len(data), 2)]
        data = b"".join(b"\xc0\x7f" if p[1] & 0x7F == 0x7F and p[0] & 0x80 and p[0] & 0x7F else p for p in pairs)
    shape = tensor["shape"]
    if MODE == "by-heads":
        shape = [shape[0], shape[2], shape[1], shape[3]]
    return {**tensor, "shape": shape, "base64": base64.b64encode(data).decode()}


def known(message):
    return {"id", "hello", "open", "call", "look", "tokens", "tensors", "scale", "bye"} >= set(message)


def answered(message):
    call = message.get("call", {})
    if call.get("call") == "levitate" and MODE == "dies-of-unknown":
        sys.exit(1)
    if call.get("call") == "levitate" and MODE == "accepts-unknown":
        return {"outcome": "ok"}
    if MODE == "strict" and not known(message):
        return {"outcome": "error", "message": "an unknown field"}
    if "open" in message and MODE == "remembers" and "c0" in hostile.world:
        return {"outcome": "ok", "state": hostile.state(hostile.world["c0"])}
    answer = hostile.answered(message)
    if "read" in answer:
        answer["read"] = {name: respelt(tensor) for name, tensor in answer["read"].items()}
    return answer


def main():
    size = 65536 if MODE == "short-lines" else -1
    while line := sys.stdin.readline(size):
        message = json.loads(line)
        if "bye" in message:
            if MODE == "stays":
                hostile.hang()
            sys.exit(4 if MODE == "leaves-badly" else 0)
        number = min(message["id"], 2**31) if MODE == "small-ids" else message["id"]
        hostile.say({"id": number, **answered(message)})
        if MODE == "chatty" and "hello" in message:
            print("ready", flush=True)  # noqa: T201
        if MODE == "answers-twice" and "open" in message:
            hostile.say({"id": number, **answered(message)})
    if MODE == "stays":
        hostile.hang()


if __name__ == "__main__":
    main()
