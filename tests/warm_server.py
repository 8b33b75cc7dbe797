"""Imports modules, then runs scripts, each in a fork of itself: `warm_server.py SOCKET MODULE...` (see warm.py)."""

import ast
import atexit
import contextlib
import fcntl
import gc
import importlib
import io
import logging
import multiprocessing.spawn
import os
import runpy
import select
import signal
import socket
import sys
import threading
import types
import weakref


def serve(address):
    """Accept runs until standard input ends; in a run's own process, return its words.

    A run is (process, descriptor that is readable at its end, connection that waits for its exit code).
    """
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen(16)
    print("ready", flush=True)
    runs = {}
    while True:
        ready, _, _ = select.select([listener, 0, *runs], [], [])
        if 0 in ready:
            for run in set(runs.values()):
                finish(*run)
            os._exit(0)
        for run in {runs[file] for file in ready if file in runs}:
            finish(*run)
            runs = {file: other for file, other in runs.items() if other is not run}
        if listener not in ready:
            continue
        connection, _ = listener.accept()
        words, streams = received(connection)
        process = os.fork() if words else None
        if process == 0:
            listener.close()
            for opened in {connection, *(opened for _, *both in runs.values() for opened in both)}:
                os.close(opened if isinstance(opened, int) else opened.detach())
            return begun(words, streams)
        for stream in streams:
            os.close(stream)
        if process:
            run = process, os.pidfd_open(process), connection
            runs |= dict.fromkeys(run[1:], run)


def received(connection):
    """The words that a client sends, and its open files; no words if it has ended meanwhile."""
    length, streams, _, _ = socket.recv_fds(connection, 8, 64)
    words, size = b"", int.from_bytes(length, "big")
    while len(words) < size:
        if not (more := connection.recv(size - len(words))):
            return b"", streams
        words += more
    return words, streams


def begun(words, streams):
    """Take the client's open files; return its other words."""
    os.setsid()
    *told, numbers = ast.literal_eval(words.decode())
    renumber(dict(zip(streams, numbers)))
    sys.stdin = sys.__stdin__ = open(0, closefd=False)  # noqa: SIM115
    sys.stdout = sys.__stdout__ = unbuffered(1, "strict")
    sys.stderr = sys.__stderr__ = unbuffered(2, "backslashreplace")
    return told


def finish(process, ended, connection):
    """End a run that nobody waits for any more; end what it has started, and tell its exit code."""
    if not select.select([ended], [], [], 0)[0]:
        os.kill(process, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process, signal.SIGKILL)
    with contextlib.suppress(OSError):
        connection.sendall(code.to_bytes(8, "big", signed=True))
    os.close(ended)
    connection.close()


def renumber(files):
    """Give open files, by number, the numbers that they have in the process that wants the run."""
    beyond = max([*files, *files.values()]) + 1
    moved = {fcntl.fcntl(file, fcntl.F_DUPFD, beyond): number for file, number in files.items()}
    for file in files:
        os.close(file)
    for file, number in moved.items():
        os.dup2(file, number)
        os.close(file)


def unbuffered(number, errors):
    """The stream of a file descriptor, which remembers nothing of the server's, such as whether it can seek."""
    raw = open(number, "wb", buffering=0, closefd=False)  # noqa: SIM115
    return io.TextIOWrapper(raw, errors=errors, write_through=True)


def become(words, cwd, environment):
    """Be what Python makes of itself before it runs a script; the script's code and names."""
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    sys.executable = environment.get(EXECUTABLE, sys.executable)
    multiprocessing.spawn.set_executable(sys.executable)
    multiprocessing.process.ORIGINAL_DIR = cwd
    path = [p for p in environment.get("PYTHONPATH", "").split(os.pathsep) if p]
    while words[0] == "-u":  # the server's streams are unbuffered
        words = words[1:]
    kind = words[0] if words[0] in ("-c", "-m") else ""
    first = {"-c": "", "-m": cwd}.get(kind, os.path.dirname(os.path.abspath(words[0])))
    sys.path[:] = [*path, *OWN_PATH]
    for folder in path:
        start = os.path.join(folder, "sitecustomize.py")
        if os.path.isfile(start):
            runpy.run_path(start)
            break
    sys.path.insert(0, first)
    sys.argv = {"-c": ["-c", *words[2:]], "-m": words[1:]}.get(kind, words)
    main = types.ModuleType("__main__")
    main.__builtins__ = __builtins__
    sys.modules["__main__"] = main
    if kind == "-m":
        return f"import runpy; runpy._run_module_as_main({words[1]!r})", main.__dict__
    if kind == "-c":
        return compile(words[1], "<string>", "exec"), main.__dict__
    main.__file__ = words[0]
    with open(words[0], "rb") as file:
        return compile(file.read(), words[0], "exec"), main.__dict__


def execute(code, names):
    """Run it to its end; the exit code. An error goes to the hook, as it does in Python's own loop."""
    try:
        exec(code, names)
    except SystemExit as error:
        if error.code is None or isinstance(error.code, int):
            return error.code or 0
        print(error.code, file=sys.stderr)
        return 1
    except BaseException as error:
        error.__traceback__ = error.__traceback__.tb_next
        sys.excepthook(type(error), error, error.__traceback__)
        return 1
    return 0


def end(code):
    """As Python ends, but that it does not clear all modules, which would take most of a short run."""
    threading._shutdown()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(ValueError, OSError):
            stream.flush()
    LEAVE(code & 0xFF)


LEAVE = os._exit  # the runtime may replace it, and write what is pending
OWN_PATH = [p for p in sys.path[1:] if p not in os.environ.get("PYTHONPATH", "").split(os.pathsep)]
EXECUTABLE = "XLA_MIGRATE_TESTS_EXECUTABLE"  # which some modules keep when they are imported
sys.executable = os.environ.get(EXECUTABLE, sys.executable)
for name in sys.argv[2:]:
    importlib.import_module(name)
for finalizer, its in weakref.finalize._registry.items():
    if its.func.__module__ == "torch.library":  # hundreds, which take longer than most scripts
        finalizer.atexit = False
logging.root.handlers.clear()  # torch_xla leaves one, with which a script's basicConfig does nothing
gc.collect()
gc.freeze()  # what is imported is not looked through again
run = become(*serve(sys.argv[1]))
end(execute(*run))
