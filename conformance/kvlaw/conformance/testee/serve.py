"""The other side of the protocol, for any of our own subjects: a test double of a testee in another language.

One message is read, carried out and answered at a time. Nothing else reaches standard output: it is kept for the
answers, and whatever is printed goes to standard error.
"""

import os
import sys
from typing import IO, Any

from attrs import define

from kvlaw.conformance.demands import terms_of
from kvlaw.conformance.guard import describe
from kvlaw.spec import wire
from kvlaw.spec.config import SERIAL_KINDS
from kvlaw.spec.observations import Observation


@define
class Server:
    """Answers messages for one subject."""

    subject: Any
    name: str
    kinds: tuple[Any, ...] = SERIAL_KINDS
    dtype: str = "bf16"

    def answer(self, line: bytes) -> bytes | None:
        """Answer one line; None at the end."""
        number = 0
        try:
            number = wire.read_id(wire.read_line(line))
            message = wire.read_message(line)
            if message.verb == "bye":
                return None
            if message.verb == "hello":
                return wire.write_line(wire.greeting(number, self.hello()))
            return wire.write_line(wire.answering(number, self._observed(message), self.dtype))
        except wire.WireError as error:
            told = Observation("error", message=str(error))
        except Exception as error:  # what a subject shows that has no form on the wire
            told = Observation("error", message=describe(error))
        return wire.write_line(wire.answering(number, told, self.dtype))

    def hello(self) -> wire.Hello:
        """Say what the subject is."""
        terms = terms_of(self.subject)
        return wire.Hello(
            protocol=wire.PROTOCOL,
            name=self.name,
            kinds=tuple(self.kinds),
            capabilities=tuple(sorted(self.subject.capabilities)),
            policies=terms.policies,
            dtypes=terms.dtypes,
            code_bits=terms.code_bits,
            damages=terms.damages,
            kernel_set=terms.kernel_set,
            hints=True,
        )

    def _observed(self, message: wire.Message) -> Observation:
        if message.verb == "open":
            config = wire.read_config(message.body["open"])
            self.dtype = config.dtype
            return self.subject.open(config)
        body = message.body["call"]
        try:
            call = wire.read_call(body)
        except wire.UnknownCallError as error:
            return Observation("unsupported", message=str(error))
        payload = wire.read_payload(call, message.body)
        return self.subject.apply(call, payload, message.body.get("look") is True)


def serve(subject: Any, name: str, kinds: tuple[Any, ...]) -> None:
    """Answer the lines of standard input until its end."""
    answers = _own_stdout()
    server = Server(subject, name, kinds)
    for line in sys.stdin.buffer:
        answer = server.answer(line)
        if answer is None:
            break
        answers.write(answer)
        answers.flush()


def _own_stdout() -> IO[bytes]:
    """Keep standard output for the answers, and send to standard error what is printed, from compiled code too."""
    sys.stdout.flush()
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return answers


__all__ = ["Server", "serve"]
