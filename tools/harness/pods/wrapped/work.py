"""The program that is wrapped: three processes that write a line each 10 ms, `BOOTTIME PID TOKEN`.

One is the program, one its child, one a daemon that left its session. `python -I -S work.py FILE
[ends STATUS AFTER | deaf]`; at SIGTERM it writes `term` and ends with 7, or is deaf to it.
"""

import os
import signal
import sys
import time

PAUSE = 0.01


def write(text: str) -> None:
    # Lines of one write are whole, whoever else appends.
    os.write(OUT, f"{text}\n".encode())


def work(*, until: float = float("inf")) -> None:
    while (now := time.clock_gettime(time.CLOCK_BOOTTIME)) < until:
        write(f"{now:.6f} {os.getpid()} {TOKEN}")
        time.sleep(PAUSE)


def terminated(*_: object) -> None:
    write("term")
    if MODE != "deaf":
        os._exit(7)


OUT = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
TOKEN = os.environ["ELECTOR_FENCING_TOKEN"]
MODE = sys.argv[2] if len(sys.argv) > 2 else ""
if os.fork() == 0:
    work()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        work()
    os._exit(0)
os.wait()
signal.signal(signal.SIGTERM, terminated)
if MODE == "ends":
    work(until=time.clock_gettime(time.CLOCK_BOOTTIME) + float(sys.argv[4]))
    os._exit(int(sys.argv[3]))
work()
