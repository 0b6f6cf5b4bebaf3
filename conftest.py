"""What holds for all tests: an interrupt reaches them, also where a shell that runs them behind it has it ignored."""

import signal

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
