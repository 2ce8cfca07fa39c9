"""Run a command whose Python kernels are forked from one process that has imported torch, and so start at once.

    python tests/notebooks/forked_kernels.py COMMAND [ARGUMENT ...]

To the command the kernel is the usual ``python3``. Elsewhere than on Linux, where a process that has imported torch may
not be forked, the command has ordinary kernels.
"""

import importlib
import json
import os
import select
import shutil
import signal
import socket
import sys
import tempfile
import threading
from pathlib import Path

# None of these looks for a kernel when it is imported, as ipywidgets and tqdm.auto do.
IMPORTED = ("torch", "torch._dynamo", "matplotlib.pyplot", "ipykernel.kernelapp")  # an optimizer imports dynamo
REQUEST = "--ask"  # the first argument of the process that a kernel's owner starts, watches and ends


def run(command: list[str]) -> None:
    """Become ``command``, with a child that forks its kernels and ends after it."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # threads that wait for each other starve whoever runs the kernels
    folder = Path(tempfile.mkdtemp())
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(folder / "socket"))
    listener.listen(64)
    argv = [sys.executable, "-I", "-S", __file__, REQUEST, str(folder / "socket"), "-f", "{connection_file}"]
    kernel = {"argv": argv, "display_name": "Python 3", "language": "python", "interrupt_mode": "message"}
    (folder / "kernels" / "python3").mkdir(parents=True)
    (folder / "kernels" / "python3" / "kernel.json").write_text(json.dumps(kernel))
    ended, running = os.pipe()
    if os.fork() == 0:
        os.close(running)
        if kernel := serve(listener, ended):
            be_kernel(*kernel)
        else:
            shutil.rmtree(folder)
        return
    os.set_inheritable(running, True)  # the other end of the pipe hears when the command ends, however it ends
    paths = filter(None, (str(folder), os.environ.get("JUPYTER_PATH")))
    os.execvpe(command[0], command, os.environ | {"JUPYTER_PATH": os.pathsep.join(paths)})


def serve(listener: socket.socket, ended: int) -> tuple | None:
    """Fork for each request until ``ended`` can be read; in a fork, return what its kernel is called with."""
    os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    sys.path.pop(0)  # the folder of this file
    os.environ["MPLBACKEND"] = "module://matplotlib_inline.backend_inline"  # as ipykernel sets it
    for name in IMPORTED:
        importlib.import_module(name)
    while ended not in select.select([listener, ended], [], [])[0]:
        connection, _ = listener.accept()
        _, streams, *_ = socket.recv_fds(connection, 1, 3)
        request = json.loads(connection.makefile().readline())
        if os.fork() == 0:
            listener.close()
            os.close(ended)
            return connection, streams, *request
        for opened in (*streams, connection.detach()):
            os.close(opened)


def be_kernel(connection: socket.socket, streams: list[int], folder: str, environment: dict, arguments: list) -> None:
    """Run a kernel, as the process that asked for it would have; end when that process ends."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    threading.Thread(target=lambda: connection.recv(1) or os._exit(1), daemon=True).start()
    arguments.append(f"--IPKernelApp.parent_handle={os.getppid()}")
    importlib.import_module("ipykernel.kernelapp").launch_new_instance(argv=arguments)


def ask(address: str, arguments: list[str]) -> None:
    """Ask for a kernel and wait until it ends."""
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(address)
    socket.send_fds(connection, [b" "], [0, 1, 2])
    request = os.getcwd(), dict(os.environ), arguments
    connection.sendall(json.dumps(request).encode() + b"\n")
    connection.recv(1)


if __name__ == "__main__":
    if sys.argv[1] == REQUEST:
        ask(sys.argv[2], sys.argv[3:])
    elif sys.platform == "linux":
        run(sys.argv[1:])
    else:
        os.execvp(sys.argv[1], sys.argv[1:])
